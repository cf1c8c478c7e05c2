"""What a run is told: the recipe.

`sections.py` declares every key, its default, its bounds and its meaning;
`recipe.py` reads recipes and checks their keys together. How a key is declared
and checked is in `schema.py`, as saved models and studies have keys, too.
"""

from relative_attention.recipes.recipe import Recipe
from relative_attention.recipes.recipe import find_recipe

__all__ = ["Recipe", "find_recipe"]
