import type { IncomingMessage } from 'node:http';
import { json } from 'node:stream/consumers';
import { serveLocally } from '../local-server.ts';

export const judgeModel = 'judge-1';

export type FakeJudge = { baseUrl: string; close(): Promise<void> };

type ChatRequest = { response_format?: { json_schema?: { schema?: { properties?: object } } } };

/** Starts a fake provider that answers cases and gives every text the same valid verdict, at once. */
export async function startFakeJudge(): Promise<FakeJudge> {
  async function answer(request: IncomingMessage): Promise<object> {
    if (request.url === '/v1/models') return { object: 'list', data: [{ id: judgeModel, object: 'model' }] };
    const { response_format } = (await json(request)) as ChatRequest;
    const properties = response_format?.json_schema?.schema?.properties;
    const content = properties === undefined ? 'A loan is repaid month by month.' : verdictFor(properties);
    const usage = { prompt_tokens: 400, completion_tokens: 60, total_tokens: 460 };
    const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }];
    return { object: 'chat.completion', model: judgeModel, choices, usage };
  }

  const { address, close } = await serveLocally((request, response) => {
    answer(request).then(
      (body) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body)),
      () => response.destroy(),
    );
  });
  return {
    baseUrl: `http://${address}/v1`,
    close,
  };
}

/** Builds the verdict of the plain rubric, which scores all axes at once, or of the anchored one, which scores one. */
function verdictFor(properties: object): string {
  const [, axes] = /"axis":\{"type":"string","enum":(\[[^\]]*\])/.exec(JSON.stringify(properties)) ?? [];
  const rationale = 'It says what it should, in plain words and in a good order.';
  if (axes === undefined)
    return JSON.stringify({ rationale, weakness: 'No example is given.', severity: 'structural', score: 3 });
  const names = JSON.parse(axes) as string[];
  return JSON.stringify({ scores: names.map((axis) => ({ axis, rationale, score: 3 })) });
}
