"""Uploads tasks, loads one back, and prints JSON of what both translate.

A process of its own: `huggingface_hub` reads the address of the hub when it is
imported. Run by `test_upload.py`.
"""

import json
import sys

import keras_hub

import relative_attention as ra
from tests.hub.tiny_tasks import SOURCES


def message_of(function, *arguments):
    try:
        function(*arguments)
    except ra.InputError as error:
        return str(error)
    return None


def main(folder):
    task = ra.hub.TranslationLM.from_preset(folder)
    task.upload_preset("hf://me/mine")
    loaded = keras_hub.models.Seq2SeqLM.from_preset("hf://me/mine")
    # Trained on: what the folder says of its model is not true of this one.
    weight = task.transformer.weights[0]
    weight.assign(2 * weight)
    task.upload_preset("hf://me/other", ["en", "de"], "mit")
    # A card that is there stays.
    task.upload_preset("hf://me/mine")
    results = {
        "expected": ra.load_translator(folder).translate(SOURCES),
        "loaded": loaded.generate(SOURCES),
        "messages": [
            message_of(task.upload_preset, "me/mine"),
            message_of(task.upload_preset, "hf://me/mine/more"),
            message_of(ra.hub.TranslationLM.from_preset, "hf://me/nothing"),
            message_of(ra.hub.TranslationLM.from_preset, "hf://me/strange"),
        ],
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
