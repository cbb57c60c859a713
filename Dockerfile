# syntax=docker/dockerfile:1
# Every command of ddqueue, for the control machine and for simulated boxes: docker run ddqueue:0.1.0 --help
ARG PYTHON=3.11.14-slim-bookworm

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /build
RUN python -m venv /opt/ddqueue
# The packages first: they change less often than the code. Exactly those of the lock, by their hashes, and nothing is compiled.
COPY requirements/local.lock requirements/local.lock
RUN /opt/ddqueue/bin/python -m pip install --require-hashes --only-binary :all: -r requirements/local.lock
COPY pyproject.toml README.md LICENSE ./
COPY requirements/deploy.lock requirements/deploy.lock
COPY deploy deploy
COPY migrations migrations
COPY workers workers
COPY ddqueue ddqueue
RUN /opt/ddqueue/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && /opt/ddqueue/bin/python -m pip install --no-deps --no-index dist/ddqueue-*.whl

FROM python:${PYTHON}
LABEL org.opencontainers.image.title="ddqueue" \
      org.opencontainers.image.description="A distributed job queue for benchmarking LLM serving on several GPU hosts" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# By number, so that docker-compose.yml can give it its secrets. A new volume takes over the owner of the folder it covers.
RUN groupadd --system --gid 10001 ddqueue \
    && useradd --system --uid 10001 --gid ddqueue --home-dir /var/lib/ddqueue --shell /usr/sbin/nologin ddqueue \
    && install --directory --owner=ddqueue --group=ddqueue --mode=0750 /var/lib/ddqueue
COPY --from=build /opt/ddqueue /opt/ddqueue
ENV PATH=/opt/ddqueue/bin:$PATH PYTHONUNBUFFERED=1 DDQUEUE_HOME=/var/lib/ddqueue
USER 10001:10001
WORKDIR /var/lib/ddqueue
# No HEALTHCHECK: what is healthy depends on the command, so docker-compose.yml has one for each.
ENTRYPOINT ["ddqueue"]
CMD ["--help"]
