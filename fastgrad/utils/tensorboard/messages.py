"""What is written: messages of TensorBoard's formats, in the forms that PyTorch writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from google.protobuf import struct_pb2
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.hparams import api_pb2
from tensorboard.plugins.hparams import metadata as hparams_metadata
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo
from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData
from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

from fastgrad.native.build.loader import TensorBase
from fastgrad.utils.tensorboard.values import number_of, png_of


def _one(tag: str, **content: Any) -> Any:
    return Summary(value=[Summary.Value(tag=tag, **content)])


def _for(plugin: str, content: bytes = b"") -> Any:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def _sizes(*sizes: int) -> Any:
    return TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in sizes])


def scalar(tag: str, value: float, new_style: bool = False, double_precision: bool = False) -> Any:
    """A number; in the newer form a tensor, of float64 if asked for."""
    if not new_style:
        return _one(tag, simple_value=value)
    kind = (
        {"double_val": [value], "dtype": "DT_DOUBLE"}
        if double_precision
        else {"float_val": [value], "dtype": "DT_FLOAT"}
    )
    return _one(tag, tensor=TensorProto(**kind), metadata=_for("scalars"))


def histogram(tag: str, fields: Mapping[str, Any]) -> Any:
    """A histogram."""
    return _one(tag, histo=HistogramProto(**fields))


def image(tag: str, pixels: np.ndarray) -> Any:
    """An image (H, W, C) of bytes."""
    height, width, channels = pixels.shape
    packed = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=png_of(pixels)
    )
    return _one(tag, image=packed)


def text(tag: str, content: str) -> Any:
    """A text in Markdown."""
    tensor = TensorProto(dtype="DT_STRING", string_val=[content.encode()], tensor_shape=_sizes(1))
    return _one(
        f"{tag}/text_summary",
        tensor=tensor,
        metadata=_for("text", TextPluginData(version=0).SerializeToString()),
    )


def pr_curve(tag: str, curve: np.ndarray, num_thresholds: int) -> Any:
    """A precision-recall curve (6, N)."""
    tensor = TensorProto(
        dtype="DT_FLOAT", float_val=curve.reshape(-1).tolist(), tensor_shape=_sizes(*curve.shape)
    )
    data = PrCurvePluginData(version=0, num_thresholds=num_thresholds)
    return _one(tag, tensor=tensor, metadata=_for("pr_curves", data.SerializeToString()))


def custom_scalars(layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> Any:
    """Which scalars stand in which charts: categories of charts, each a kind and tags."""
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                value, lower, upper = tags
                series = layout_pb2.MarginChartContent.Series(value=value, lower=lower, upper=upper)
                made.append(
                    layout_pb2.Chart(title=title, margin=layout_pb2.MarginChartContent(series=[series]))
                )
            else:
                made.append(
                    layout_pb2.Chart(title=title, multiline=layout_pb2.MultilineChartContent(tag=tags))
                )
        categories.append(layout_pb2.Category(title=category, chart=made))
    packed = layout_pb2.Layout(category=categories).SerializeToString()
    tensor = TensorProto(dtype="DT_STRING", string_val=[packed], tensor_shape=TensorShapeProto())
    return _one("custom_scalars__config__", tensor=tensor, metadata=_for("custom_scalars"))


# --- hyperparameters -------------------------------------------------------------------------------------------------

_KINDS = {
    "bool_value": "DATA_TYPE_BOOL",
    "number_value": "DATA_TYPE_FLOAT64",
    "string_value": "DATA_TYPE_STRING",
}


def hparams(
    values: Mapping[str, Any], metrics: Mapping[str, Any], discrete: Mapping[str, Sequence[Any]]
) -> tuple[Any, Any, Any]:
    """What an experiment varies and measures, the values of this run, and that it has ended."""
    infos, start = [], SessionStartInfo()
    for name, given in values.items():
        if given is None:
            continue
        field, value = _typed(name, given)
        setattr(start.hparams[name], field, value)
        domain = None
        if name in discrete:
            found = [_typed(name, each) for each in discrete[name]]
            if any(kind != field for kind, _ in found):
                raise TypeError(
                    f"add_hparams(): the values of {name} in hparam_domain_discrete must be of one type"
                )
            domain = struct_pb2.ListValue(values=[struct_pb2.Value(**{kind: each}) for kind, each in found])
        infos.append(
            api_pb2.HParamInfo(name=name, type=api_pb2.DataType.Value(_KINDS[field]), domain_discrete=domain)
        )
    measured = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics]
    experiment = api_pb2.Experiment(hparam_infos=infos, metric_infos=measured)
    end = SessionEndInfo(status=api_pb2.Status.Value("STATUS_SUCCESS"))
    return (
        _hparams(hparams_metadata.EXPERIMENT_TAG, experiment=experiment),
        _hparams(hparams_metadata.SESSION_START_INFO_TAG, session_start_info=start),
        _hparams(hparams_metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )


def _hparams(tag: str, **content: Any) -> Any:
    data = HParamsPluginData(version=hparams_metadata.PLUGIN_DATA_VERSION, **content)
    return _one(tag, metadata=_for(hparams_metadata.PLUGIN_NAME, data.SerializeToString()))


def _typed(name: str, value: Any) -> tuple[str, Any]:
    """The field that holds a value, and the value."""
    if isinstance(value, bool):
        return "bool_value", value
    if isinstance(value, str):
        return "string_value", value
    if isinstance(value, (int, float, np.number, TensorBase)):
        return "number_value", number_of("add_hparams", name, value)
    raise ValueError(
        f"add_hparams(): the value of {name} should be an int, float, str, bool or Tensor, not {type(value).__name__}"
    )
