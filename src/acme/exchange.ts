import type { IncomingHttpHeaders } from 'node:http'
import { request } from 'node:https'
import { AcmeProblem } from './problems.ts'

export type Exchanged = { status: number; headers: IncomingHttpHeaders; body: string }

const timeoutMs = 30_000
const maxBodyBytes = 256 * 1024

type Options = { method: string; ca: string | undefined; body?: string; contentType?: string; signal: AbortSignal }

/** Uses node:https because `fetch` cannot trust a custom CA. */
export function exchange(url: string, { method, ca, body, contentType, signal }: Options): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    const time = AbortSignal.timeout(timeoutMs)
    const fail = (cause: unknown) => {
      if (signal.aborted) return reject(signal.reason)
      const reason = time.aborted ? 'it did not answer in time' : (cause as Error).message
      reject(new AcmeProblem('unreachable', `${new URL(url).host} cannot be reached: ${reason}`, { cause }))
    }
    if (signal.aborted) return fail(undefined)
    const outgoing = request(
      url,
      {
        method,
        signal: AbortSignal.any([time, signal]),
        ...(ca && { ca }),
        headers: { 'user-agent': 'gatehouse', ...(contentType && { 'content-type': contentType }) },
      },
      (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          text += chunk
          if (text.length > maxBodyBytes) outgoing.destroy(new Error('its answer is too long'))
        })
        response.on('error', fail)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }))
      },
    )
    outgoing.on('error', fail)
    outgoing.end(body)
  })
}
