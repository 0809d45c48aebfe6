/** The message tells the operator which key is missing, or that a stored value was changed or moved. */
export class UnreadableSecret extends Error {
  override readonly name = 'UnreadableSecret'
}
