// npx @hey-api/openapi-ts --file openapi-ts.config.mjs
export default {
  input: process.env.OPENAPI_URL ?? 'http://127.0.0.1:3000/openapi.json',
  output: { path: 'client', importFileExtension: '.ts' },
  plugins: [{ name: '@hey-api/client-fetch', throwOnError: true }],
};
