/** A fragment of the document being built. */
export type Json = Record<string, unknown>
