import type { Flag } from './flags.ts'

/** An API operation as a command: its words, and the arguments that may follow. */
export type Operation = {
  readonly words: readonly string[]
  readonly id: string
  readonly summary: string
  readonly method: string
  readonly path: string
  /** Required arguments in order: the path parameters and, for a shortcut, fields of the body. */
  readonly positionals: readonly { name: string; place: 'path' | 'body' }[]
  readonly flags: readonly Flag[]
  readonly body?: { readonly required: readonly string[] }
  readonly otherBodies: readonly string[]
  /** Fields of the response, or of each item of a list. Empty if it is not JSON. */
  readonly fields: readonly string[]
  readonly otherResponses: readonly string[]
  /** The answer is a stream that stays open. */
  readonly streams: boolean
  readonly listField?: string
  readonly creates: boolean
}
