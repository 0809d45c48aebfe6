import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  PageParameters,
  PathId,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'

export const ApiKeyCreate = Closed({ ...Annotations, owner_id: Type.Optional(Id('usr', 'bot')) })
export type ApiKeyCreate = Static<typeof ApiKeyCreate>

export const ApiKeyUpdate = Closed({ id: PathId('ak'), ...Annotations })
export type ApiKeyUpdate = Static<typeof ApiKeyUpdate>

export const ApiKey = Closed(
  {
    id: Id('ak'),
    uri: Uri,
    ...AnnotationsShown,
    created_at: Timestamp,
    token: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'The bearer token: in the response to creation only, null everywhere else.',
    }),
    owner_id: Id('usr', 'bot'),
  },
  { title: 'ApiKey' },
)
export type ApiKey = Static<typeof ApiKey>

export const ApiKeyQuery = Closed({ ...PageParameters, before_id: BeforeId('ak') })
