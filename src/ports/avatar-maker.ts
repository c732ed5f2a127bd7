/**
 * Makes an avatar of an image that nobody vouches for: the middle of its first frame, upright, as a square WebP of at
 * most 512 pixels a side, never larger than the image, with nothing else of the file.
 *
 * Throws `unsupported_format` for what is no PNG, JPEG, WebP or GIF, `corrupt_document`, `too_large`,
 * `conversion_timeout`, and the signal's reason after an abort.
 */
export type AvatarMaker = (image: Buffer, signal: AbortSignal) => Promise<Buffer>;
