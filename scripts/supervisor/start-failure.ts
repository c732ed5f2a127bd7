/** An error whose message tells the user why the service cannot run. It is printed without a stack. */
export class StartFailure extends Error {
  override name = 'StartFailure';
}
