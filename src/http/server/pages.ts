import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Request, Response } from 'express';
import express, { type Router } from 'express';
import helmet from 'helmet';
import type { Metrics } from '#src/ports/telemetry.ts';
import { isSentToLocalHost } from './servers.ts';

const assets = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'];

/** API reference at `/docs`: a local Swagger UI for `/openapi.json`. */
export function createDocsPage(options: { basePath: string; title: string }): Router {
  const folder = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
  const here = `${options.basePath}/docs`;
  const router = express.Router();

  // Swagger UI needs style attributes and data: images; scripts only come from files.
  router.use(
    helmet.contentSecurityPolicy({
      useDefaults: false,
      directives: {
        defaultSrc: ["'none'"],
        scriptSrc: ["'self'"],
        styleSrc: ["'self'", "'unsafe-inline'"],
        imgSrc: ["'self'", 'data:'],
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
<script src="${here}/start.js"></script>
</body>
</html>
`);
  });
  router.get('/start.js', (_req, res) => {
    const settings = { url: `${options.basePath}/openapi.json`, dom_id: '#reference', deepLinking: true };
    res.type('js').send(`SwaggerUIBundle(${JSON.stringify(settings)});\n`);
  });
  for (const asset of assets) {
    router.get(`/${asset}`, (_req, res) => res.sendFile(join(folder, asset), { maxAge: '1d' }));
  }
  return router;
}

/**
 * Metrics on the API's port, only for requests from this machine. Requests that a proxy forwarded are rejected.
 */
export function createMetricsPage(metrics: Pick<Metrics, 'page'>) {
  return async (req: Request, res: Response, next: () => void): Promise<void> => {
    res.locals.route = '/metrics';
    const isForwarded = ['forwarded', 'x-forwarded-for', 'x-forwarded-host'].some(
      (name) => req.get(name) !== undefined,
    );
    if (isForwarded || !isSentToLocalHost(req.headers)) return next();
    const { text, mediaType } = await metrics.page();
    res.set({ 'Content-Type': mediaType, 'Cache-Control': 'no-store' }).send(text);
  };
}
