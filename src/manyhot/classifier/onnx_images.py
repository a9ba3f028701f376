"""From pictures of any size to the pixels that a network takes, as part of an ONNX graph."""

from __future__ import annotations

from typing import Any

from manyhot.backbones import Preprocessing

# First the width, then the height, rounded between, as `prepare` does it.
GRAPH = """
<ir_version: {ir_version}, opset_import: ["" : {opset}]>
prepare (uint8[N, H, W, 3] images) => (uint8[N, 3, {height}, {width}] pixels)
<int64[1] height = {{{height}}}, int64[1] width = {{{width}}}{constants}>
{{
  planes = Transpose <perm = [0, 3, 1, 2]> (images)
  front = Shape <start = 0, end = 2> (planes)
  {region}
  wide_size = Concat <axis = 0> (front, rows, width)
  scaled_wide = Resize <{how}> (kept, , , wide_size)
  size = Concat <axis = 0> (front, height, width)
  pixels = Resize <{how}> (scaled_wide, , , size)
}}
"""
WHOLE = """
  rows = Shape <start = 2, end = 3> (planes)
  kept = Identity (planes)
"""
CONSTANTS = ", int64[1] one = {1}, int64[1] two = {2}, int64[2] axes = {2, 3}"
MIDDLE = """
  all_rows = Shape <start = 2, end = 3> (planes)
  all_columns = Shape <start = 3, end = 4> (planes)
  wide = Mul (all_rows, width)
  fitting_columns = Div (wide, height)
  some_columns = Min (all_columns, fitting_columns)
  columns = Max (some_columns, one)
  high = Mul (all_columns, height)
  fitting_rows = Div (high, width)
  some_rows = Min (all_rows, fitting_rows)
  rows = Max (some_rows, one)
  spare_rows = Sub (all_rows, rows)
  spare_columns = Sub (all_columns, columns)
  top = Div (spare_rows, two)
  left = Div (spare_columns, two)
  bottom = Add (top, rows)
  right = Add (left, columns)
  starts = Concat <axis = 0> (top, left)
  ends = Concat <axis = 0> (bottom, right)
  kept = Slice (planes, starts, ends, axes)
"""
# Of Pillow: weights outside of the picture are left out, not taken from its border, and the cubic curve has -0.5.
HOW = 'mode = "{mode}", antialias = 1, exclude_outside = 1, cubic_coeff_a = -0.5'
MODES = {"bilinear": "linear", "bicubic": "cubic"}


def images_model(preprocessing: Preprocessing, *, opset: int, ir_version: int) -> Any:
    """A model from `images` (N, H, W, 3) to `pixels` (N, 3, height, width), both uint8, as `Preprocessing.prepare`."""
    from onnx import parser

    height, width = preprocessing.size
    crops = preprocessing.resize == "crop"
    text = GRAPH.format(
        height=height,
        width=width,
        opset=opset,
        ir_version=ir_version,
        region=MIDDLE if crops else WHOLE,
        constants=CONSTANTS if crops else "",
        how=HOW.format(mode=MODES[preprocessing.interpolation]),
    )
    return parser.parse_model(text)
