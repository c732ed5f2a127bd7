"""Embeds with onnxruntime in Python, as fast as it can: answers each JSON line on stdin with one on stdout."""

import base64
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import onnxruntime
import tokenizers

model_path, tokenizer_path, cores = sys.argv[1], sys.argv[2], int(sys.argv[3])
tokenizer = tokenizers.Tokenizer.from_file(tokenizer_path)
tokenizer.no_padding()
tokenizer.enable_truncation(256)


def open_session(threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model_path, options, providers=["CPUExecutionProvider"])


shared = open_session(cores)
own = [open_session(1) for _ in range(cores)]


def embed_batch(session, batch):
    encodings = tokenizer.encode_batch_fast(batch)
    width = max(len(encoding.ids) for encoding in encodings)
    ids = numpy.zeros((len(batch), width), dtype=numpy.int64)
    mask = numpy.zeros((len(batch), width), dtype=numpy.int64)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding.ids)] = encoding.ids
        mask[row, : len(encoding.ids)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
    hidden = session.run(["last_hidden_state"], inputs)[0]
    weights = mask[:, :, None].astype(numpy.float32)
    vectors = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True), int(mask.sum())


def embed(texts, way):
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    size = 32 if way == "batches" else 1
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    vectors = numpy.zeros((len(texts), 384), dtype=numpy.float32)

    def run(session, batch):
        found, tokens = embed_batch(session, [texts[index] for index in batch])
        vectors[batch] = found
        return tokens

    if way != "threads":
        return vectors, sum(run(shared, batch) for batch in batches)

    def run_share(share):
        return sum(run(own[share], batch) for batch in batches[share::cores])

    with ThreadPoolExecutor(cores) as pool:
        return vectors, sum(pool.map(run_share, range(cores)))


versions = {"python": sys.version.split()[0], "onnxruntime": onnxruntime.__version__, "numpy": numpy.__version__}
print(json.dumps({"versions": versions}), flush=True)
for line in sys.stdin:
    request = json.loads(line)
    start = time.perf_counter()
    vectors, tokens = embed(request["texts"], request["way"])
    seconds = time.perf_counter() - start
    answer = {"seconds": seconds, "tokens": tokens, "vectors": base64.b64encode(vectors.tobytes()).decode()}
    print(json.dumps(answer), flush=True)
