/** Why the service cannot run, in words for the person at the terminal: shown without a stack. */
export class StartFailure extends Error {
  override name = 'StartFailure';
}
