"""Makes torch modules of files in the ONNX format.

reader.py        the file, its nodes in order
inputs.py        shapes of inputs
build.py         nodes to steps; what depends on no input is computed
control_flow.py  branches, loops and sequences
cut.py           where a graph ends before what is not supported
rules/           a function for each operator
module.py        the steps as a torch module
limits.py        what a file may hold
"""

from alcove.platform.cli.importing.onnx_files.errors import OnnxError
from alcove.platform.cli.importing.onnx_files.make import read_onnx
from alcove.platform.cli.importing.onnx_files.module import OnnxModule

__all__ = ["OnnxError", "OnnxModule", "read_onnx"]
