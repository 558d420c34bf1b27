"""The families of models, as a table for a terminal."""

from rich.table import Table

from mogul.models.families import FAMILIES


def models_table() -> Table:
    """The families, and how names are made of them."""
    table = Table(
        title="mogul's models", caption="dk-NAME has a deep kernel, NAME-lvm latent inputs, dk-NAME-lvm both."
    )
    for heading in ("name", "what it is", "equation"):
        table.add_column(heading)
    for name, recipe in FAMILIES.items():
        table.add_row(name, recipe.description, f"eqn:{recipe.equation}")
    return table
