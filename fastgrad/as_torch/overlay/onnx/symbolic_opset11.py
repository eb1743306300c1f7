"""Names of ops for an exporter to ONNX, which is not there: packages import the module, and no name of it."""
