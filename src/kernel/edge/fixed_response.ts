import { textFault } from '../text.ts'
import { encodedSize, headerLimits, responseHeaderFault } from './headers.ts'

/** A response that the edge sends itself. */
export type FixedResponse = {
  status: number
  headers: readonly (readonly [name: string, value: string])[]
  body: string
}

/** Their sum fits into one of HAProxy's buffers, which must hold the whole response. */
export const responseLimits = { bodyBytes: 8192, headerBytes: 6000, leastStatus: 200, mostStatus: 599 } as const

const withoutBody = new Set([204, 205, 304])

/** The first invalid part and the reason. Completes the sentence '<place> …'. */
export function responseFault({ status, headers, body }: FixedResponse): { place: string; fault: string } | undefined {
  const { bodyBytes, leastStatus, mostStatus } = responseLimits
  if (!Number.isInteger(status) || status < leastStatus || status > mostStatus)
    return { place: 'status_code', fault: `must be an integer from ${leastStatus} to ${mostStatus}` }
  if (withoutBody.has(status) && body !== '')
    return { place: 'body', fault: `must be empty, because a response with status ${status} has no body` }
  const bodyFault = textFault(body, bodyBytes)
  if (bodyFault) return { place: 'body', fault: bodyFault }
  return responseHeadersFault(headers)
}

function responseHeadersFault(headers: FixedResponse['headers']): { place: string; fault: string } | undefined {
  if (headers.length > headerLimits.entries)
    return { place: 'headers', fault: `must have at most ${headerLimits.entries} entries` }
  const places = new Map<string, string>()
  for (const [name, value] of headers) {
    const place = `headers.${name}`
    const first = places.get(name.toLowerCase())
    const fault =
      responseHeaderFault(name, value) ?? (first === undefined ? undefined : `names the same header as ${first}`)
    if (fault) return { place, fault }
    places.set(name.toLowerCase(), place)
  }
  const bytes = encodedSize(headers.flat())
  if (bytes <= responseLimits.headerBytes) return undefined
  return {
    place: 'headers',
    fault: `must be smaller: all names and values together take ${bytes} bytes and the limit is ${responseLimits.headerBytes}. Characters other than letters, digits and ._~:/+*@,!()- count as three bytes, and each name and value counts one more`,
  }
}
