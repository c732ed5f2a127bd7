// `node scripts/healthcheck.mjs [port] [path]`: the health check of a container, where there is no curl. It ends with 0 when
// the process that listens here (without a port: the API) answers that it is well.
const { PORT = '3000', BASE_PATH = '' } = process.env;
const [port = PORT, path = `${BASE_PATH}/healthz`] = process.argv.slice(2);
const { ok } = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(4_000) });
process.exit(ok ? 0 : 1);
