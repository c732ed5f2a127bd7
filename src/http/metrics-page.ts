import type { Request, Response } from 'express';
import type { Metrics } from '#src/ports/telemetry.ts';
import { isSentToLocalHost } from './local-host.ts';

/**
 * The metrics beside the API, for this machine. A request that a proxy has passed on is somebody else's, wherever it
 * seems to come from.
 */
export function createMetricsPage(metrics: Pick<Metrics, 'page'>) {
  return async (req: Request, res: Response, next: () => void): Promise<void> => {
    res.locals.route = '/metrics';
    const isPassedOn = ['forwarded', 'x-forwarded-for', 'x-forwarded-host'].some((name) => req.get(name) !== undefined);
    if (isPassedOn || !isSentToLocalHost(req.headers)) return next();
    const { text, mediaType } = await metrics.page();
    res.set({ 'Content-Type': mediaType, 'Cache-Control': 'no-store' }).send(text);
  };
}
