import type { Request } from 'express';
import type { Logger } from 'pino';
import type { StoredEvent, StoredResponse } from '#src/ports/idempotency-store.ts';
import { type Answer, type EventSink, type EventsAnswer, eventStream } from './answers.ts';
import type { OpenStreams } from './open-streams.ts';
import { toAppError } from './problem.ts';
import type { AppResponse } from './request-log.ts';
import { sendDownload, sendEmpty, sendFile, sendJson, sendProblem } from './send-answer.ts';
import { eventStreamHeaders } from './sse.ts';

/** A stream whose events are out. It stays open until `end`, so that its key can be kept first. */
export type SentStream = { end: () => void };

export type Delivery = {
  send(req: Request, res: AppResponse, answer: Answer): Promise<void>;
  sendAgain(req: Request, res: AppResponse, stored: StoredResponse): Promise<void>;
  /** @param onEvent hears of each event when it is sent, to keep it */
  stream(res: AppResponse, answer: EventsAnswer, onEvent?: (event: StoredEvent) => void): Promise<SentStream>;
};

/** Sends answers of every kind, fresh and kept ones. */
export function createDelivery(deps: {
  streams: OpenStreams;
  logger: Logger;
  isOutage: (error: unknown) => boolean;
}): Delivery {
  const { streams, logger, isOutage } = deps;

  const delivery: Delivery = {
    async send(req, res, answer) {
      switch (answer.kind) {
        case 'json':
          return sendJson(req, res, answer);
        case 'empty':
          return sendEmpty(res, answer.status, answer.headers);
        case 'file':
          res.set(answer.headers);
          return sendFile(req, res, answer.content);
        case 'download':
          return sendDownload(req, res, answer);
        case 'events':
          (await delivery.stream(res, answer)).end();
      }
    },

    async sendAgain(req, res, { status, headers, body }) {
      switch (body.kind) {
        case 'json':
          return sendJson(req, res, { status, data: body.data, headers });
        case 'empty':
          return sendEmpty(res, status, headers);
        case 'problem':
          return sendProblem(res, status, body.data, headers);
        case 'events': {
          const replay = async (events: EventSink) => {
            for (const event of body.events) await events.send(event);
          };
          (await delivery.stream(res, eventStream(replay, { headers }))).end();
        }
      }
    },

    async stream(res, { run, headers, isWatch }, onEvent) {
      res.status(200).set({ ...eventStreamHeaders, ...headers });
      const open = streams.open(res, { isWatch, sessionId: res.locals.sessionId });
      const send = (event: StoredEvent) => {
        onEvent?.(event);
        return open.send(event);
      };
      try {
        await run({ send, closed: open.closed });
      } catch (thrown) {
        const { code, message } = toAppError(thrown, isOutage);
        logger.error({ msg: 'stream failed', requestId: res.locals.requestId, code, err: thrown });
        await send({ event: 'error', data: { detail: message, code } });
      }
      return { end: () => open.end() };
    },
  };
  return delivery;
}
