"""Numbers of few bits, which fastgrad does not have: there is no engine for them."""

engine = "none"
supported_engines: list[str] = []
