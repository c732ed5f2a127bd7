import type { ConnectorProvider } from '#src/domain/documents/imports.ts';
import type { BlobStore } from '#src/ports/blob-store.ts';
import type { Connector, ConnectorAccesses } from '#src/ports/connectors.ts';
import type { Converter } from '#src/ports/documents.ts';
import type { Telemetry } from '#src/ports/telemetry.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { observedCall, withObserved } from './observed-call.ts';

export function observedVectorStore(vectors: VectorStore, store: 'pgvector' | 'qdrant', telemetry: Telemetry) {
  const { metrics } = telemetry;
  const observed = withObserved(
    vectors,
    [
      'upsert',
      'publish',
      'search',
      'fetch',
      'findExisting',
      'countGenerations',
      'listGenerations',
      'deleteGenerations',
    ],
    (operation, _args, call) => {
      const attributes = {
        'db.system.name': store === 'qdrant' ? 'qdrant' : 'postgresql',
        'db.operation.name': operation,
      };
      return observedCall(
        telemetry,
        { name: `vectors ${operation}`, kind: 'client', attributes },
        (outcome, seconds) =>
          metrics.time('acs_vector_store_call_duration_seconds', { store, operation, outcome }, seconds),
        call,
      );
    },
  );
  return {
    ...observed,
    async upsert(input: Parameters<VectorStore['upsert']>[0]) {
      await observed.upsert(input);
      metrics.count('acs_ingestion_chunks_total', { store }, input.points.length);
    },
  };
}

export function observedBlobStore(blobs: BlobStore, store: 'filesystem' | 's3', telemetry: Telemetry): BlobStore {
  const observe = <T>(operation: string, _args: readonly unknown[], call: () => Promise<T>) =>
    observedCall(
      telemetry,
      { name: `blobs ${operation}`, kind: 'client', attributes: { 'acs.blob_store': store } },
      (outcome, seconds) =>
        telemetry.metrics.time('acs_blob_store_call_duration_seconds', { store, operation, outcome }, seconds),
      call,
    );
  return {
    ...withObserved(blobs, ['stage', 'promote', 'unstage', 'read', 'exists', 'delete', 'list'], observe),
    /** Until the file is there: what is done with it is no business of the store. */
    withLocalFile(key, use) {
      const there = Promise.withResolvers<void>();
      const fetched = observe('withLocalFile', [], () => there.promise);
      fetched.catch(() => undefined);
      const used = blobs.withLocalFile(key, (path) => {
        there.resolve();
        return use(path);
      });
      used.catch(there.reject);
      return used;
    },
  };
}

/** A document that is read in slices counts once for each. */
export function observedConverter(
  converter: Converter,
  sizeOf: (path: string) => Promise<number>,
  telemetry: Telemetry,
): Converter {
  const { metrics } = telemetry;
  return {
    ...converter,
    convert(input) {
      const { format } = input;
      return observedCall(
        telemetry,
        { name: `convert ${format}`, kind: 'internal' },
        (outcome) => metrics.count('acs_ingestion_documents_total', { format, outcome }),
        async () => {
          metrics.count('acs_ingestion_bytes_total', { format }, await sizeOf(input.path));
          return converter.convert(input);
        },
      );
    },
  };
}

export function observedConnectors(access: ConnectorAccesses, telemetry: Telemetry): ConnectorAccesses {
  const observe = (provider: string) => {
    return <T>(operation: string, _args: readonly unknown[], call: () => Promise<T>) =>
      observedCall(
        telemetry,
        { name: `${provider} ${operation}`, kind: 'client', attributes: { 'acs.provider': provider } },
        (outcome, seconds) =>
          telemetry.metrics.time('acs_connector_call_duration_seconds', { provider, operation, outcome }, seconds),
        call,
      );
  };
  const one = (connector: Connector): Connector => {
    const { changes, revoke, provider } = connector;
    const observed = observe(provider);
    return {
      ...withObserved(connector, ['check', 'list', 'find', 'download'], observed),
      changes: changes && withObserved(changes, ['begin', 'since'], observed),
      revoke: revoke && ((of) => observed('revoke', [], () => revoke(of))),
    };
  };
  const connectors = Object.entries(access.connectors).map(([provider, connector]) => [provider, one(connector)]);
  return { ...access, connectors: Object.fromEntries(connectors) as Record<ConnectorProvider, Connector> };
}
