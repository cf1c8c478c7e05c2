# Translates and serves with CTranslate2, without Keras. In a checkout:
#
#     docker build -t relative-attention .
#     docker run -p 127.0.0.1:8501:8501 relative-attention
#     docker run -p 127.0.0.1:8501:8501 -v "$PWD/runs:/work/runs" \
#         relative-attention serve runs/mine --host 0.0.0.0 --no-token
#
# The whole package, which also trains:
#
#     docker build --target whole -t relative-attention:whole .
#     docker run --no-healthcheck -v "$PWD:/work" relative-attention:whole \
#         train small_relative data.source=train.en data.target=train.de
#
# What is mounted must be writable for the user 1000, or `--user` names another.
# `--no-token` lets in who can reach the port: `-p 127.0.0.1:` keeps it to this
# machine, and `--token-file` asks for a token.

FROM python:3.13-slim AS build
WORKDIR /source
# .dockerignore lets through what the wheel is made of, and nothing else.
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim AS base
RUN useradd --create-home --uid 1000 relative \
    && mkdir /work \
    && chown relative /work
WORKDIR /work
ENV PYTHONUNBUFFERED=1
EXPOSE 8501
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s CMD [ \
    "python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/healthz')" \
]
ENTRYPOINT ["relative-attention"]
CMD ["serve", "tatoeba_en_de", "--host", "0.0.0.0", "--no-token"]

FROM base AS whole
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/*.whl)[plot,serve]"
USER relative

# The last one is what is built unless `--target` names another.
FROM base AS translating
RUN pip install --no-cache-dir ctranslate2 sentencepiece sentencex numpy \
    safetensors PyYAML babel starlette uvicorn prometheus-client
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-deps /wheels/*.whl
USER relative
