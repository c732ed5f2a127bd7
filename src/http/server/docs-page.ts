import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import express, { type Router } from 'express';
import helmet from 'helmet';

const swaggerUiAssets = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'];
const ownAssets = ['page.js', 'prefill.js'];

/** Serves the page of the API's documentation, Swagger UI. Its scripts put ids of the caller into the examples. */
export function createDocsPage(options: { basePath: string; title: string }): Router {
  const swaggerUi = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  const here = `${options.basePath}/docs`;
  const router = express.Router();

  // Swagger UI needs inline style attributes and `data:` images; scripts are only loaded from files.
  router.use(
    helmet.contentSecurityPolicy({
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'", "'unsafe-inline'"],
        imgSrc: ["'self'", 'data:', 'blob:'],
        connectSrc: ["'self'"],
        baseUri: ["'none'"],
        formAction: ["'none'"],
        frameAncestors: ["'none'"],
      },
    }),
  );
  router.get('/', (_req, res) => {
    res.type('html').send(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${options.title}</title>
<link rel="icon" href="${here}/favicon-32x32.png">
<link rel="stylesheet" href="${here}/swagger-ui.css">
</head>
<body>
<div id="reference"></div>
<script src="${here}/swagger-ui-bundle.js"></script>
<script type="module" src="${here}/start.js"></script>
</body>
</html>
`);
  });
  router.get('/start.js', (_req, res) => {
    const settings = { url: `${options.basePath}/openapi.json`, basePath: options.basePath };
    res.type('js').send(`import { startPage } from './page.js';\nawait startPage(${JSON.stringify(settings)});\n`);
  });
  for (const asset of swaggerUiAssets) {
    router.get(`/${asset}`, (_req, res) => res.sendFile(join(swaggerUi, asset), { maxAge: '1d' }));
  }
  for (const asset of ownAssets) {
    router.get(`/${asset}`, (_req, res) => res.sendFile(join(import.meta.dirname, 'docs-page', asset)));
  }
  return router;
}
