import { startApiProcess } from '#test/support/child-processes.ts';
import { type FaultCase, startFaultCase } from '#test/support/fault-case.ts';

export type ApiProcess = Awaited<ReturnType<typeof startApiProcess>>;

/** For a suite: a fault case of its own and API processes that end with it. It is empty until `before` has run. */
export function useFaultCase() {
  const apis: ApiProcess[] = [];
  const own = {} as FaultCase;
  before(async () => {
    Object.assign(own, await startFaultCase());
  });
  after(async () => {
    await Promise.all(apis.map((api) => api.stop()));
    await own.close();
  });
  async function startApi(settings: Record<string, string> = {}): Promise<ApiProcess> {
    const api = await startApiProcess(own.stack, settings);
    apis.push(api);
    return api;
  }
  return { own, startApi };
}
