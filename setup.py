"""Metadata of the package; the rest is in pyproject.toml."""

import pathlib
import re
import runpy
import shutil

import setuptools
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).parent
VERSION = runpy.run_path(str(ROOT / "relative_attention" / "version.py"))

# The project's address, which nobody has given yet: the only place to change.
ADDRESS = "https://relative-attention.invalid"


def long_description() -> str:
    """README.md with links that lead somewhere from a package index, too."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    kinds = {"!": "raw", "": "blob"}
    return re.sub(
        r"(!?)(\[[^]]*\]\()(?!https?:|mailto:|#)",
        lambda link: f"{link[0]}{ADDRESS}/{kinds[link[1]]}/main/",
        text,
    )


# What was learned from Multi30k is for research only, and is not published:
# it stays in the checkout. MANIFEST.in leaves it out of the sdist.
RESEARCH_ONLY = [
    "multi30k_*/model.safetensors",
    "multi30k_*/vocabulary.model",
]


class BuildWithZoo(build_py):
    """Puts recipes and models, which lie beside the package, into the wheel."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        for file in sorted((ROOT / "models").glob("*/*")):
            # Cards show pictures where they lie, not in the wheel.
            if any(file.match(name) for name in (*RESEARCH_ONLY, "*.png")):
                continue
            target = pathlib.Path(
                self.build_lib,
                "relative_attention",
                "zoo",
                file.parent.name,
                file.name,
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


DEMO = ["Babel>=2.18", "matplotlib>=3.11", "num2words>=0.5.14"]
CTRANSLATE2 = ["ctranslate2>=4.8.5"]
DOCS = [
    "fonttools>=4.68",
    "furo>=2025.12",
    # Its functions have changed their names from one version to the next.
    "math-core==0.9.*",
    "myst-nb>=1.4",
    "sphinx>=9.0",
    "sphinx-copybutton>=0.5",
    # For the font that it has.
    "ziamath>=0.13",
]
# Debian's Chromium is driven by it; no browser of its own is needed.
BROWSER = ["playwright>=1.65"]
SERVE = ["prometheus-client>=0.26", "starlette>=1.10", "uvicorn>=0.54"]
# What Keras exports to, for tests of it.
EXPORTS = ["ai-edge-litert>=2.3", "onnxruntime>=1.32", "tf2onnx>=1.17"]
SERVING = ["tensorflow-serving-api>=2.18.1"]
# The second is imported by the first, which does not ask for it.
WMT = ["tensorflow-datasets>=4.9.10", "importlib_resources>=7.1"]
TEST = [
    # KerasHub's own tests of a model import it.
    "grain>=0.2.18",
    "ipykernel>=7.4",
    "nbclient>=0.11",
    "nbformat>=5.11",
    "httpx2>=2.16",
    "pytest>=9.2",
    "pytest-xdist>=3.8",
    "setuptools>=77",
]
# For a GPU `jax[cuda13]` or the like; see docs/guides/jax.md.
# Neither backend was tried with an older Keras, which lacks `ops.view`.
JAX = ["jax>=0.10.2", "keras>=3.15"]
# One PyTorch, since the newest comes with gigabytes of CUDA.
BACKENDS = JAX + ["torch==2.13.0"]
LINT = [
    "import-linter>=2.16",
    "mypy>=2.4",
    "pyright>=1.1.411",
    "ruff>=0.17.5",
    "types-PyYAML",
    "types-defusedxml",
    "types-tabulate",
]
RELEASE = ["build>=1.3", "twine>=6.2"]

setuptools.setup(
    name="relative-attention",
    version=VERSION["__version__"],
    description=(
        "Keras 3 self-attention with relative position representations, and "
        "the translation models built on it"
    ),
    long_description=long_description(),
    long_description_content_type="text/markdown",
    # The code, and the weights that are published.
    license_expression="Apache-2.0 AND LicenseRef-CC-BY-2.0-FR",
    license_files=["LICENSE", "models/tatoeba_*/LICENSE.md"],
    packages=setuptools.find_packages(include=["relative_attention*"]),
    package_data={
        "relative_attention": ["py.typed", "*.pyi"],
        "relative_attention.corpora": ["tatoeba_pairs/*"],
        "relative_attention.plot": ["page/*"],
        "relative_attention.serve": ["page/*"],
    },
    cmdclass={"build_py": BuildWithZoo},
    # An editable installation by a path, which type checkers and editors
    # follow, and not by a hook that Python runs.
    options={"editable_wheel": {"mode": "compat"}},
    python_requires=">=3.11",
    # The fast tests ran with exactly these, `make test-oldest`, and run with
    # the newest. What set a bound that is not just two years old:
    # - keras 3.10: optimizers make variables by a list, adapters have an
    #   alpha. Weights in int8 ask for 3.13 when they are used.
    # - keras-nlp 0.21.1 (KerasHub) came with it.
    # - sentencepiece 0.2.1: 0.2.0 crashes where TensorFlow is loaded first.
    # - safetensors 0.6.2: tensors in the order of their offsets.
    # - tensorflow-text is of one TensorFlow each, which it chooses.
    install_requires=[
        "babel>=2.16",
        "defusedxml>=0.7.1",
        "keras>=3.10",
        "keras-nlp>=0.21.1",
        "numpy>=2.0.2",
        "PyYAML>=6.0.1",
        "sacrebleu>=2.4.3",
        "sacremoses>=0.1",
        "safetensors>=0.6.2",
        "sentencepiece>=0.2.1",
        "sentencex>=1.0.32",
        "tabulate>=0.9",
        "tensorboard>=2.18",
        "tensorflow>=2.18.1",
        # There is none for Windows: KerasHub's tokenizers and SavedModels of
        # strings are not to be had there.
        "tensorflow-text>=2.18.1; platform_system != 'Windows'",
    ],
    extras_require={
        "ctranslate2": CTRANSLATE2,
        "demo": DEMO,
        "docs": DOCS,
        "jax": JAX,
        "plot": ["matplotlib>=3.11"],
        "serve": SERVE,
        "serving": SERVING,
        "test": TEST
        + BROWSER
        + DEMO
        + CTRANSLATE2
        + DOCS
        + EXPORTS
        + SERVE
        + SERVING
        + WMT,
        "wmt": WMT,
        "backends": BACKENDS,
        "lint": LINT,
        "release": RELEASE,
    },
    entry_points={
        "console_scripts": ["relative-attention=relative_attention.cli:main"]
    },
    author="The relative-attention authors",
    project_urls={
        "Source": ADDRESS,
        "Documentation": f"{ADDRESS}/blob/main/docs/index.md",
        "Issues": f"{ADDRESS}/issues",
        "Changelog": f"{ADDRESS}/blob/main/CHANGELOG.md",
    },
    keywords=[
        "attention",
        "keras",
        "machine translation",
        "relative positions",
        "transformer",
    ],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
