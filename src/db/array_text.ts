import { yieldToEventLoop } from '../kernel/flow/yield_to_event_loop.ts'

/**
 * PostgreSQL's text form of an array. The driver would build it while sending, which makes the database wait, and a
 * long array would block all other requests.
 */
export const arrayText = (values: readonly (string | null)[]): string => `{${elements(values)}}`

const elements = (values: readonly (string | null)[]): string => values.map(element).join(',')

const element = (value: string | null): string =>
  value === null ? 'NULL' : `"${isPlain(value) ? value : value.replaceAll(/["\\]/g, '\\$&')}"`

const isPlain = (value: string): boolean => !value.includes('"') && !value.includes('\\')

const sliceSize = 2_000

/** Like `arrayText`, in slices, for arrays of any length. */
export async function longArrayText<Item>(
  items: readonly Item[],
  pick: (item: Item) => string | null,
): Promise<string> {
  let text = ''
  for (let start = 0; start < items.length; start += sliceSize) {
    if (start > 0) {
      text += ','
      await yieldToEventLoop()
    }
    text += elements(items.slice(start, start + sliceSize).map(pick))
  }
  return `{${text}}`
}
