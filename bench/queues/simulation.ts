import { seededRandom } from '../search/random.ts';

/** A document that an organization uploads, and the priority of its run (1 is highest). */
export type Arrival = { at: number; key: string; priority: number };

/** When a worker began with the document, in seconds after its arrival, and when it was done. */
export type Served = Arrival & { waited: number; doneAt: number };

/**
 * How a queue chooses the next task: `fifo` by arrival; `fair` by priority and then by Temporal's passes, which take
 * turns between keys.
 */
export type Order = { kind: 'fifo' } | { kind: 'fair'; partitions?: number; weightOf?: (key: string) => number };

type Waiting<Task> = { arrival: Task; rank: readonly [number, number, number] };

/** Temporal's distance between two passes of a key with the weight 1. */
const stride = 1_000;

/**
 * Simulates one task queue of `slots` slots in which nothing is preempted.
 *
 * Follows Temporal 1.31's fair task queues: a task gets its pass when it arrives,
 * `max(pass of the last task taken, last pass of its key + stride / weight)`, and the task with the lowest priority
 * number, then the lowest pass, then the earliest arrival is taken. Each partition does so for itself; tasks and free
 * slots are spread over the partitions at random.
 */
export function simulate<Task extends Arrival>(
  arrivals: readonly Task[],
  options: { slots: number; order: Order; serviceSeconds: (task: Task) => number; seed: number },
): (Task & Served)[] {
  const { slots, order, serviceSeconds, seed } = options;
  const random = seededRandom(seed);
  const count = order.kind === 'fair' ? (order.partitions ?? 1) : 1;
  const partitions = Array.from({ length: count }, () => createPartition<Task>(order));
  const busyUntil = createHeap<number>((a, b) => a - b);
  const served: (Task & Served)[] = [];
  let free = slots;
  let next = 0;
  let waiting = 0;

  function serve(now: number): void {
    while (free > 0 && waiting > 0) {
      // A poller that finds its partition empty is forwarded to another one.
      const from = random.below(count);
      const offset = partitions.findIndex((_, index) => (partitions[(from + index) % count]?.size() ?? 0) > 0);
      const arrival = partitions[(from + offset) % count]?.take();
      if (arrival === undefined) return;
      const doneAt = now + serviceSeconds(arrival);
      busyUntil.push(doneAt);
      served.push({ ...arrival, waited: now - arrival.at, doneAt });
      free -= 1;
      waiting -= 1;
    }
  }

  for (;;) {
    const arrival = arrivals[next];
    const end = busyUntil.peek();
    if (arrival === undefined && end === undefined) return served;
    const now = Math.min(arrival?.at ?? Number.POSITIVE_INFINITY, end ?? Number.POSITIVE_INFINITY);
    if (arrival !== undefined && arrival.at === now) {
      partitions[random.below(count)]?.add(arrival, next);
      waiting += 1;
      next += 1;
    } else {
      busyUntil.pop();
      free += 1;
    }
    // Equal times are one moment: a burst waits as a whole before the first of it is taken.
    if (arrivals[next]?.at !== now) serve(now);
  }
}

function createPartition<Task extends Arrival>(order: Order) {
  const heap = createHeap<Waiting<Task>>((a, b) =>
    a.rank.reduce((by, part, index) => by || part - (b.rank[index] ?? 0), 0),
  );
  // Temporal keeps passes for each priority.
  const passes = new Map<string, number>();
  const lastTaken = new Map<number, number>();
  return {
    size: heap.size,
    add(arrival: Task, index: number): void {
      const { key, priority } = arrival;
      if (order.kind === 'fifo') {
        heap.push({ arrival, rank: [0, 0, index] });
        return;
      }
      const name = `${priority} ${key}`;
      const base = lastTaken.get(priority) ?? 0;
      const pass = Math.max(base, (passes.get(name) ?? 0) + stride / (order.weightOf?.(key) ?? 1));
      passes.set(name, pass);
      heap.push({ arrival, rank: [priority, pass, index] });
    },
    take(): Task | undefined {
      const taken = heap.pop();
      if (taken === undefined) return undefined;
      const [priority, pass] = taken.rank;
      if (order.kind === 'fair') lastTaken.set(priority, Math.max(pass, lastTaken.get(priority) ?? 0));
      return taken.arrival;
    },
  };
}

function createHeap<Item>(compare: (a: Item, b: Item) => number) {
  const items: Item[] = [];
  const at = (index: number) => items[index] as Item;
  const swap = (a: number, b: number) => {
    [items[a], items[b]] = [at(b), at(a)];
  };
  return {
    size: () => items.length,
    peek: () => items[0],
    push(item: Item): void {
      let index = items.push(item) - 1;
      while (index > 0) {
        const parent = (index - 1) >> 1;
        if (compare(at(parent), at(index)) <= 0) return;
        swap(parent, index);
        index = parent;
      }
    },
    pop(): Item | undefined {
      const first = items[0];
      const last = items.pop();
      if (items.length === 0 || last === undefined) return first;
      items[0] = last;
      for (let index = 0; ; ) {
        const [left, right] = [2 * index + 1, 2 * index + 2];
        let least = index;
        if (left < items.length && compare(at(left), at(least)) < 0) least = left;
        if (right < items.length && compare(at(right), at(least)) < 0) least = right;
        if (least === index) return first;
        swap(least, index);
        index = least;
      }
    },
  };
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN;
}
