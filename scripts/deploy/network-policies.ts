import { isDeepStrictEqual } from 'node:util';
import { parseAllDocuments } from 'yaml';
import { z } from 'zod';

const labels = z.record(z.string(), z.string());
const policy = z.object({
  kind: z.literal('NetworkPolicy'),
  spec: z.object({
    podSelector: z.object({ matchLabels: labels }),
    policyTypes: z.array(z.string()),
    egress: z
      .array(
        z.object({
          ports: z.array(z.object({ port: z.union([z.number(), z.string()]) })),
          to: z.array(z.unknown()).optional(),
        }),
      )
      .nullable(),
  }),
});
const workload = z.object({
  kind: z.enum(['Deployment', 'Job']),
  spec: z.object({ template: z.object({ metadata: z.object({ labels }) }) }),
});

/**
 * Returns the egress ports of each workload in a rendered chart, by its component; `*` marks ports that are allowed at
 * any address.
 * @throws Error if a workload does not have exactly one NetworkPolicy for both directions
 */
export function egressPortsByComponent(rendered: string): Record<string, string[]> {
  const documents: unknown[] = parseAllDocuments(rendered).map((document) => document.toJS());
  const policies = documents.flatMap((document) => policy.safeParse(document).data ?? []);
  const workloads = documents.flatMap((document) => workload.safeParse(document).data ?? []);
  return Object.fromEntries(
    workloads.map(({ spec }) => {
      const podLabels = spec.template.metadata.labels;
      const component = podLabels['app.kubernetes.io/component'] ?? '';
      const own = policies.filter(({ spec: { podSelector } }) =>
        Object.entries(podSelector.matchLabels).every(([name, value]) => podLabels[name] === value),
      );
      const [first] = own;
      if (first === undefined || own.length > 1 || !isDeepStrictEqual(first.spec.policyTypes, ['Ingress', 'Egress'])) {
        throw new Error(`${component} must have one network policy for Ingress and Egress (${own.length} select it).`);
      }
      const ports = (first.spec.egress ?? []).flatMap((rule) =>
        rule.ports.map(({ port }) => `${port}${rule.to === undefined ? '*' : ''}`),
      );
      return [component, [...new Set(ports)].sort()];
    }),
  );
}
