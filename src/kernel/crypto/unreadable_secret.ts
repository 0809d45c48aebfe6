/** The message is for the operator: which key is missing, or that something was changed or moved. */
export class UnreadableSecret extends Error {
  override readonly name = 'UnreadableSecret'
}
