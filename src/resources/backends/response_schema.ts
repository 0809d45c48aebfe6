import { Type } from 'typebox'
import { Annotations, Closed, type Static } from '../../http/wire.ts'
import { responseLimits } from '../../kernel/edge/fixed_response.ts'
import { headerLimits, headerSchemas } from '../../kernel/edge/headers.ts'
import { queryOf, shownFields, updateFields } from './schema.ts'

const { leastStatus, mostStatus, bodyBytes } = responseLimits

const StatusCode = Type.Integer({
  minimum: leastStatus,
  maximum: mostStatus,
  'x-default': 200,
  examples: [503],
  description: 'Status of the response.',
})
const Headers = Type.Unsafe<Record<string, string>>({
  type: 'object',
  additionalProperties: { type: 'string' },
  examples: [{ 'Retry-After': '600' }],
  description: `Headers of the response, by name. At most ${headerLimits.entries}. Without a Content-Type, a body is sent as text/plain; charset=utf-8.`,
  'x-default': {},
  'x-documented': headerSchemas.map,
})
const Body = Type.String({
  'x-maxBytes': bodyBytes,
  'x-default': '',
  examples: ['Back at noon.'],
  description: `Body of the response. At most ${bodyBytes} bytes.`,
})

const optional = {
  status_code: Type.Optional(StatusCode),
  headers: Type.Optional(Headers),
  body: Type.Optional(Body),
}

export const ResponseBackendCreate = Closed({ ...Annotations, ...optional })
export const ResponseBackendUpdate = updateFields('bkdhr', optional)
export const ResponseBackend = shownFields('bkdhr', 'HttpResponseBackend', {
  status_code: StatusCode,
  headers: Headers,
  body: Body,
})
export type ResponseBackend = Static<typeof ResponseBackend>
export const ResponseBackendQuery = queryOf('bkdhr', {})
