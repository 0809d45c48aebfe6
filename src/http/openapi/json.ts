/** A part of the document under construction. */
export type Json = Record<string, unknown>
