"""The corpora of WMT 2014; `tests/cli/test_data_command.py` fetches one."""

import pytest
import tensorflow_datasets as tfds

from relative_attention import InputError
from relative_attention.corpora import wmt14


@pytest.mark.parametrize("languages", ["de-en", "fr-en"])
def test_tensorflow_datasets_knows_a_checksum_of_every_download(languages):
    from tensorflow_datasets.core.download import checksums
    from tensorflow_datasets.translate.wmt import DATASET_MAP

    builder = tfds.builder(f"wmt14_translate/{languages}", data_dir="none")
    urls = [
        url
        for parts in builder.subsets.values()
        for part in parts
        for url in DATASET_MAP[part].get_url(languages[:2])
    ]
    assert len(urls) >= 5
    assert set(urls) <= set(checksums.get_all_url_infos())


def test_a_text_becomes_one_line_to_python():
    breaks = [
        character
        for character in map(chr, range(0x3000))
        if len(f"a{character}b".splitlines()) > 1
    ]
    assert wmt14._one_line(f" a{''.join(breaks)}b \n") == "a b"
    assert wmt14._one_line("a \n b") == "a   b"


def test_unknown_corpus_is_refused():
    with pytest.raises(InputError, match="'wmt15'.*Known: wmt14_en_de"):
        wmt14.fetch_wmt14("wmt15", "nowhere")
