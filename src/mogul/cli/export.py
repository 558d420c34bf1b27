"""`mogul export`: a model file as an ONNX program, and a comparison of the two later."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mogul.cli.predict import inputs_of_model
from mogul.data.sources.formats import read_table
from mogul.errors import FileError, NumericalError
from mogul.fitted.files import load
from mogul.fitted.onnx_file import Agreement, OnnxFile, Settings, require_packages, write_onnx


@dataclass(frozen=True)
class Export:
    """A program, and how well it agrees with its model."""

    path: Path
    agreement: Agreement

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        one = self.agreement
        return {"out": str(self.path), "rows": one.num_rows, "differences": one.errors, "allowed": one.allowed}

    @property
    def lines(self) -> list[str]:
        """For people."""
        rows = f"{self.agreement.num_rows:,} rows"
        return [f"{self.path} agrees with its model on {rows}. Largest differences: {self.agreement.words}."]


def export_file(model: Path, out: Path, settings: Settings) -> Export:
    """Write the program of a model file once it agrees with the model."""
    require_packages()
    fitted = load(model)
    fitted.require_exportable()
    return Export(out, write_onnx(fitted, out, settings))


def verify_file(path: Path, data: Path, model: Path | None, inputs: Sequence[str] | None) -> Export:
    """Compare a program with its model: on the rows that it keeps, and on the rows of a table."""
    file = OnnxFile.read(path)
    source = path.with_suffix(".mogul") if model is None else model
    if model is None and not source.exists():
        raise FileError(f"A program is compared with its model file; there is no {source}. Name it by --model.")
    fitted = load(source)
    x = inputs_of_model(fitted, read_table(data), inputs)
    for agreement in (file.verify(), found := file.verify_with(fitted, x)):
        if not agreement.holds:
            raise NumericalError(
                f"A program must agree with its model; {path} does not on {agreement.num_rows} rows: "
                f"{agreement.words}. Export it again on this machine."
            )
    return Export(path, found)
