// `node scripts/healthcheck.mjs [port] [path]`: the health check of a container, because the image has no curl. Exits
// with 0 if the process at the port (default: the API) is healthy.
const { PORT = '3000', BASE_PATH = '' } = process.env;
const [port = PORT, path = `${BASE_PATH}/healthz`] = process.argv.slice(2);
const { ok } = await fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(4_000) });
process.exit(ok ? 0 : 1);
