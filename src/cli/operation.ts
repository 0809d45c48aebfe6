import type { Flag } from './flags.ts'

/** One operation of the API as a command: the words to type, and what may follow them. */
export type Operation = {
  readonly words: readonly string[]
  readonly id: string
  readonly summary: string
  readonly method: string
  readonly path: string
  /** What must follow the words, in this order: the parameters of the path, and of a shortcut fields of the body. */
  readonly positionals: readonly { name: string; place: 'path' | 'body' }[]
  readonly flags: readonly Flag[]
  readonly body?: { readonly required: readonly string[] }
  /** Content types of the body other than JSON. */
  readonly otherBodies: readonly string[]
  /** Fields of the response, or of each item of a list. Empty if it is not JSON. */
  readonly fields: readonly string[]
  /** Content types of the answer other than JSON. */
  readonly otherResponses: readonly string[]
  /** The answer is a stream that stays open. */
  readonly streams: boolean
  /** The field of the response that holds the list. */
  readonly listField?: string
  readonly creates: boolean
}
