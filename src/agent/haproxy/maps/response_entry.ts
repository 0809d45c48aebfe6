import type { FixedResponse } from '../../../kernel/edge/fixed_response.ts'
import { encodeHeaderText } from '../../../kernel/edge/headers.ts'

/** A response as gatehouse.lua reads it: `status|name=value&name=value|body in base64`. */
export function responseValue({ status, headers, body }: FixedResponse): string {
  const isTyped = body === '' || headers.some(([name]) => name.toLowerCase() === 'content-type')
  const all = isTyped ? headers : [...headers, ['Content-Type', 'text/plain; charset=utf-8'] as const]
  const list = all.map((pair) => pair.map(encodeHeaderText).join('=')).join('&')
  return `${status}|${list}|${Buffer.from(body).toString('base64')}`
}
