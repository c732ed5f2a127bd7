/** The type itself, in lower case and without its parameters. */
export function bareMediaType(mediaType: string): string {
  return mediaType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

/** The encoding that a media type names; undefined when it names none. */
export function charsetOf(mediaType: string): string | undefined {
  return /;\s*charset\s*=\s*["']?([\w.:-]+)/i.exec(mediaType)?.[1]?.toLowerCase();
}
