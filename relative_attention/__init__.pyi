"""What `__init__.py` gives on demand, for editors and type checkers."""

from relative_attention import hub as hub
from relative_attention import plot as plot
from relative_attention.convert import load_opennmt_tf as load_opennmt_tf
from relative_attention.convert import load_tensor2tensor as load_tensor2tensor
from relative_attention.corpora import (
    write_spoken_numbers as write_spoken_numbers,
)
from relative_attention.data import FixedShapeBatches as FixedShapeBatches
from relative_attention.data import ParallelCorpus as ParallelCorpus
from relative_attention.data import SubwordVocabulary as SubwordVocabulary
from relative_attention.data import TokenBatches as TokenBatches
from relative_attention.data import TokenCorpus as TokenCorpus
from relative_attention.data import TokenVocabulary as TokenVocabulary
from relative_attention.data import Vocabulary as Vocabulary
from relative_attention.data import length_buckets as length_buckets
from relative_attention.decoding import Ensemble as Ensemble
from relative_attention.decoding import Translation as Translation
from relative_attention.decoding import TranslationScore as TranslationScore
from relative_attention.decoding import Translator as Translator
from relative_attention.decoding import beam_search as beam_search
from relative_attention.decoding import corpus_perplexity as corpus_perplexity
from relative_attention.decoding import sample as sample
from relative_attention.decoding import score_translations as score_translations
from relative_attention.errors import InputError as InputError
from relative_attention.evaluation import LengthScore as LengthScore
from relative_attention.evaluation import bleu_by_length as bleu_by_length
from relative_attention.evaluation import corpus_bleu as corpus_bleu
from relative_attention.evaluation import corpus_scores as corpus_scores
from relative_attention.evaluation import paired_bootstrap as paired_bootstrap
from relative_attention.evaluation import sentence_scores as sentence_scores
from relative_attention.export import export_ctranslate2 as export_ctranslate2
from relative_attention.export import export_saved_model as export_saved_model
from relative_attention.layers import CrossAttention as CrossAttention
from relative_attention.layers import FeedForward as FeedForward
from relative_attention.layers import LearnedPositions as LearnedPositions
from relative_attention.layers import (
    RelationAwareSelfAttention as RelationAwareSelfAttention,
)
from relative_attention.layers import (
    RelativeGlobalAttention as RelativeGlobalAttention,
)
from relative_attention.layers import (
    RelativeSelfAttention as RelativeSelfAttention,
)
from relative_attention.layers import SelfAttention as SelfAttention
from relative_attention.layers import SinusoidalPositions as SinusoidalPositions
from relative_attention.layers import (
    TargetSpaceEmbedding as TargetSpaceEmbedding,
)
from relative_attention.layers import TokenEmbedding as TokenEmbedding
from relative_attention.layers import (
    TransformerDecoderBlock as TransformerDecoderBlock,
)
from relative_attention.layers import (
    TransformerEncoderBlock as TransformerEncoderBlock,
)
from relative_attention.layers import positions as positions
from relative_attention.models import Transformer as Transformer
from relative_attention.models import TransformerConfig as TransformerConfig
from relative_attention.models import preset_training as preset_training
from relative_attention.models import presets as presets
from relative_attention.ops import (
    clipped_relative_positions as clipped_relative_positions,
)
from relative_attention.ops import (
    relative_attention_inner as relative_attention_inner,
)
from relative_attention.plot import relation_tables as relation_tables
from relative_attention.recipes import Recipe as Recipe
from relative_attention.recipes import find_recipe as find_recipe
from relative_attention.runs import average_checkpoints as average_checkpoints
from relative_attention.runs import distill as distill
from relative_attention.runs import train as train
from relative_attention.saving import load_translator as load_translator
from relative_attention.saving import save_translator as save_translator
from relative_attention.studies import Study as Study
from relative_attention.studies import find_study as find_study
from relative_attention.studies import run_study as run_study
from relative_attention.text.form import clean_text as clean_text
from relative_attention.training import AveragingAdam as AveragingAdam
from relative_attention.training import MaskedCrossEntropy as MaskedCrossEntropy
from relative_attention.training import Perplexity as Perplexity
from relative_attention.training import TokenAccuracy as TokenAccuracy
from relative_attention.training import TrainableModel as TrainableModel
from relative_attention.training import (
    TransformerSchedule as TransformerSchedule,
)
from relative_attention.training import averaged_weights as averaged_weights
from relative_attention.version import __version__ as __version__
