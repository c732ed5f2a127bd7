/** Streams a growing text, but holds back what could still become a stop string and drops everything from one on. */
export function createTextPieces(stops: readonly string[], onText: (piece: string) => void) {
  let held = '';
  let isStopped = false;

  function release(length: number): void {
    if (length > 0) onText(held.slice(0, length));
    held = held.slice(length);
  }

  return {
    /**
     * Adds text to the stream.
     * @returns true once a stop string was found; later text is dropped
     */
    push(text: string): boolean {
      if (isStopped) return true;
      held += text;
      const ends = stops.map((stop) => held.indexOf(stop)).filter((at) => at >= 0);
      isStopped = ends.length > 0;
      release(isStopped ? Math.min(...ends) : held.length - beginningOfStop(held, stops));
      return isStopped;
    },
    end(): void {
      if (!isStopped) release(held.length);
    },
  };
}

/** Returns the length of the longest suffix of the text that is a prefix of a stop string. */
function beginningOfStop(text: string, stops: readonly string[]): number {
  const lengths = stops.map((stop) => {
    for (let length = Math.min(stop.length - 1, text.length); length > 0; length -= 1) {
      if (text.endsWith(stop.slice(0, length))) return length;
    }
    return 0;
  });
  return Math.max(0, ...lengths);
}
