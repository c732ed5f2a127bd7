import type { Converter } from '#src/ports/documents.ts';
import type { ToolExecutor } from '#src/ports/tools.ts';
import type { WebFetcher } from '#src/ports/web.ts';
import type { ParserSandbox } from '../parser-sandbox.ts';
import { createHttpRequestTool } from './http-request.ts';
import { createMathTool } from './math-evaluate.ts';
import { createTimeTool } from './time-now.ts';
import { createWebFetchTool } from './web-fetch.ts';

/** The service's own tools by their ids, but for those over documents, which belong to a chat. */
export function createBuiltInExecutors(deps: {
  web: WebFetcher;
  converter: Converter;
  tempDir: string;
  sandbox: ParserSandbox;
  httpRequestAllow: readonly string[];
}): ReadonlyMap<string, ToolExecutor> {
  const { web, httpRequestAllow: allow } = deps;
  return new Map([
    ['web.fetch', createWebFetchTool(deps)],
    ['http.request', createHttpRequestTool({ web, allow })],
    ['time.now', createTimeTool()],
    ['math.evaluate', createMathTool(deps)],
  ]);
}
