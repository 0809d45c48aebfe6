import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useNavigate } from 'react-router'
import { changeTogether } from '../../api/change_together.ts'
import { queries } from '../../api/queries.ts'
import { Choice } from '../../ui/choice.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { checkText } from '../edges/health_check.tsx'
import { type Backend, nameOf, type Server } from './backend.tsx'
import { usualWeight } from './members.ts'
import { nameOfNew, type Place, placeId, planServer } from './plan_server.ts'
import { membersOf, type Uses } from './use_uses.ts'

type Props = { backend: Backend; uses: Uses; onClose: () => void }

/** Adds a server to a backend in one change, which creates a group and moves the users of the server if necessary. */
export function AddServer({ backend, uses, onClose }: Props) {
  const places = placesOf(backend, uses)
  const [chosen, choose] = useState(() => (places[0] ? placeId(places[0]) : ''))
  const place = places.find((each) => placeId(each) === chosen) ?? places[0]
  const servers = useQuery(queries.backends()).data
  const like = place && servers?.find(({ id }) => id === firstIn(place))
  const { values, set, isDirty } = useDraft({ address: '', description: '', weight: '' })
  const navigate = useNavigate()
  const client = useQueryClient()
  if (!place) return null
  const isShared = place.kind === 'new' || place.group.kind === 'weighted'
  const usual =
    place.kind === 'group' && place.group.kind === 'weighted' ? usualWeight(place.group.backend.backends) : 100
  const save = async () => {
    const { address, description, weight } = values
    const wanted = { address: address.trim(), description, weight: weight.trim() ? Number(weight) : usual }
    const changes = await planServer({ ...wanted, like, place })
    return changeTogether(`Add server ${wanted.address} to ${nameOf(backend)}`, changes)
  }
  return (
    <FormDialog
      title={`Add a server to ${nameOf(backend)}`}
      action="Add server"
      isDirty={isDirty}
      isReady={values.address.trim() !== ''}
      // Its settings are copied, so they must be loaded first.
      isWaiting={servers === undefined}
      save={save}
      canDraft
      onSaved={async ([, group]) => {
        await client.invalidateQueries()
        onClose()
        if (group) void navigate(`/backends/${group}`)
      }}
      onClose={onClose}
    >
      <Field
        label="Address"
        name="address"
        mono
        autoFocus
        value={values.address}
        onChange={set('address')}
        placeholder={like?.address ?? '10.0.0.5:8080'}
      />
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
      {places.length > 1 && (
        <Choice
          label="Together with"
          value={placeId(place)}
          onChange={choose}
          options={places.map((each) => ({ value: placeId(each), label: labelOf(each) }))}
        />
      )}
      {isShared && (
        <Field
          label="Weight"
          type="number"
          value={values.weight}
          onChange={set('weight')}
          placeholder={String(usual)}
          hint={`Its part of the traffic, compared with the others. Without a number: ${usual}.`}
        />
      )}
      <section className="impact" aria-label="What changes">
        <h3>What changes</h3>
        <Changes place={place} like={like} uses={uses} />
      </section>
    </FormDialog>
  )
}

function placesOf(backend: Backend, { direct, groups }: Uses): Place[] {
  if (backend.kind === 'weighted' || backend.kind === 'failover') return [{ kind: 'group', group: backend }]
  if (backend.kind === 'http_response') return []
  const inGroups = groups.flatMap(({ group }): Place[] =>
    group.kind === 'http_response' ? [] : [{ kind: 'group', group }],
  )
  const apart: Place = { kind: 'new', server: backend.backend, uses: direct }
  return direct.length > 0 || inGroups.length === 0 ? [apart, ...inGroups] : inGroups
}

const firstIn = (place: Place): string | undefined =>
  place.kind === 'new' ? place.server.id : membersOf(place.group).find((id) => id.startsWith('bkdst_'))

const labelOf = (place: Place): string =>
  place.kind === 'new' ? 'This server alone, in a new group' : `The servers of ${nameOf(place.group)}`

function Changes({ place, like, uses }: { place: Place; like: Server | undefined; uses: Uses }) {
  const users = place.kind === 'new' ? place.uses : uses.direct
  return (
    <ul className="plain-list">
      {place.kind === 'new' && (
        <li>
          Both servers become the weighted backend <b>{nameOfNew(place.server)}</b>, with equal shares.
        </li>
      )}
      {place.kind === 'new' &&
        users.map(({ id, name, match }) => (
          <li key={id}>
            {name} <span className="mono">{match}</span> forwards to that backend.
          </li>
        ))}
      {place.kind === 'group' && place.group.kind === 'failover' && <li>It is used when no server before it is up.</li>}
      {like && (
        <li>
          TLS, protocol and health check are those of <span className="mono">{like.address}</span>:{' '}
          {like.tls.enabled ? 'TLS' : 'no TLS'}, {like.protocol === 'http2' ? 'HTTP/2' : 'HTTP/1.1'},{' '}
          {like.health_check ? checkText(like.health_check) : 'no check of its own'}.
        </li>
      )}
      <li>Who may reach it stays as it is.</li>
    </ul>
  )
}
