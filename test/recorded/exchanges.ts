// Requests, and the responses of an earlier version, in exchanges.yaml.
import { readFile, writeFile } from 'node:fs/promises'
import { parse, stringify } from 'yaml'

export type Request = {
  title: string
  /** Whose token is sent: `admin`, `other` (the admin of a second account) or a placeholder. Without it, none is sent. */
  as?: string
  /** Method and path. */
  request: string
  /** Besides Service-Version, Authorization and Content-Type; null leaves out one of those. */
  headers?: Record<string, string | string[] | null>
  /** Sent as it is. `{x*100}` stands for 100 times the letter x, here and in headers. */
  body?: string
  /** Repeats the request until the response contains this text: for counts that the service writes every second. */
  until?: string
}
export type Response = { status: number; headers: Record<string, string>; body: string }
export type Exchange = Request & { response: Response }

const recordedFile = new URL('exchanges.yaml', import.meta.url)
const comment = `# Recorded by record.ts. To add an exchange, append its request and record all of them again.
# {ipp_2} is the second IP policy id that a response showed, wherever it appears; the same goes for other ids, tokens,
# sessions, ETags and times. {hour} is the start of an hour. The wording of errors is left out.
`

export const readRequests = async (): Promise<Request[]> => parse(await readFile(recordedFile, 'utf8'))
export const readExchanges = async (): Promise<Exchange[]> => parse(await readFile(recordedFile, 'utf8'))

export async function writeExchanges(exchanges: Exchange[]): Promise<void> {
  const entries = stringify(exchanges, { lineWidth: 0, singleQuote: true, aliasDuplicateObjects: false })
  await writeFile(recordedFile, comment + entries.replaceAll(/^- /gm, '\n- '))
}
