"""How some operators of torch are written in ONNX, where torch's own way is slow, or loses digits."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Translation = Callable[..., Any]

# Nodes of erf's integral up to 6, beyond which it is 1 in float64: an error of 2e-15.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def translations() -> dict[Callable[..., Any], Translation]:
    """For `torch.onnx.export`; needs `mogul[export]`."""
    # Extras: the module itself must be importable without them.
    import onnx_ir
    from onnxscript import opset18

    op: Any = opset18

    def like(value: Any, x: Any) -> Any:
        """A constant in the precision of x."""
        return op.Constant(value=onnx_ir.tensor(np.asarray(value, dtype=x.dtype.numpy())))

    def scalar_tensor(s: Any, dtype: Any = 1, layout: Any = "", device: Any = "", pin_memory: Any = False) -> Any:
        """A number in its precision; torch's own way is through float32."""
        return op.Constant(value=onnx_ir.tensor(s, dtype=onnx_ir.DataType(dtype)))

    def exp2(x: Any) -> Any:
        """e^(x log 2): ONNX has no 2^x but as a power, which takes several times as long."""
        return op.Exp(op.Mul(x, like(math.log(2), x)))

    def erf(x: Any) -> Any:
        """In float64, which onnxruntime has no erf for, (2/√π) ∫₀^x e^(−t²) dt by Gauss–Legendre nodes."""
        if x.dtype != onnx_ir.DataType.DOUBLE:
            return op.Erf(x)
        last = op.Constant(value=onnx_ir.tensor(np.array([-1])))
        end = op.Unsqueeze(op.Clip(x, like(-6.0, x), like(6.0, x)), last)
        at = op.Mul(end, like(0.5 * (_NODES + 1), x))
        integral = op.MatMul(op.Exp(op.Neg(op.Mul(at, at))), like(_WEIGHTS[:, None] / math.sqrt(math.pi), x))
        return op.Squeeze(op.Mul(end, integral), last)

    def erfc(x: Any) -> Any:
        """1 − erf x."""
        return op.Sub(like(1.0, x), erf(x))

    # The exporter reads from these what is a number and what is a tensor; a float may be an int to Python.
    scalar_tensor.__annotations__ |= {"s": float, "dtype": int, "layout": str, "device": str, "pin_memory": bool}
    return {
        torch.ops.aten.scalar_tensor.default: scalar_tensor,
        torch.ops.aten.exp2.default: exp2,
        torch.ops.aten.erf.default: erf,
        torch.ops.aten.erfc.default: erfc,
    }
