import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Choice } from '../../ui/choice.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { EdgeHead } from './head.tsx'
import { HeadersRow } from './headers.tsx'
import { BackendRow, RestrictionRow } from './modules.tsx'

type Edge = Shapes['HttpsEdge']
type Route = Shapes['HttpsEdgeRoute']

export function HttpsDetail({ id }: { id: string }) {
  const found = useQuery(queries.httpsEdge(id))
  const [isAdding, setAdding] = useState(false)
  return (
    <Loaded query={found} lines={8}>
      {(edge) => {
        return (
          <>
            <EdgeHead kind="https" edge={edge} />
            <div className="bar">
              <h2>Routes</h2>
              <Button kind="primary" icon="plus" onPress={() => setAdding(true)}>
                Add route
              </Button>
            </div>
            {edge.routes.length === 0 && <p className="card empty">No routes yet. Every request is refused.</p>}
            {edge.routes.map((route) => (
              <RouteCard key={route.id} edge={edge} route={route} />
            ))}
            {isAdding && <AddRoute edge={edge} onClose={() => setAdding(false)} />}
          </>
        )
      }}
    </Loaded>
  )
}

function RouteCard({ edge, route }: { edge: Edge; route: Route }) {
  const [isLeaving, setLeaving] = useState(false)
  const place = { name: `${edge.hostports[0] ?? edge.id}${route.match}`, edgeId: edge.id, routeId: route.id }
  return (
    <article className="card" aria-label={`Route ${route.match}`}>
      <header>
        <h3>
          <span className="mono">{route.match}</span>{' '}
          <Badge tone="neutral">{route.match_type === 'exact_path' ? 'Exact' : 'Prefix'}</Badge>{' '}
          {route.encoded_slashes === 'allow' && <Badge tone="neutral">encoded slashes allowed</Badge>}
          {!route.websocket && <Badge tone="neutral">no WebSockets</Badge>}
        </h3>
        <Button aria-label={`Delete route ${route.match}`} onPress={() => setLeaving(true)}>
          Delete
        </Button>
      </header>
      {route.description && <p className="body soft">{route.description}</p>}
      <div className="body">
        <BackendRow place={place} module={route.backend} />
        <RestrictionRow place={place} module={route.ip_restriction} />
        <HeadersRow place={place} module={route.request_headers} host={edge.hostports[0]} path={route.match} />
      </div>
      {isLeaving && <DeleteRoute route={route} name={place.name} onClose={() => setLeaving(false)} />}
    </article>
  )
}

function AddRoute({ edge, onClose }: { edge: Edge; onClose: () => void }) {
  const backends = useQuery(queries.backends()).data ?? []
  const [match, setMatch] = useState('/')
  const [matchType, setMatchType] = useState<Route['match_type']>('path_prefix')
  const [encodedSlashes, setEncodedSlashes] = useState<Route['encoded_slashes']>('reject')
  const [websocket, setWebsocket] = useState('accept')
  const [backendId, setBackendId] = useState('')
  const [description, setDescription] = useState('')
  const client = useQueryClient()
  const create = useMutation({
    mutationFn: () =>
      answerOf(
        api.POST('/edges/https/{edge_id}/routes', {
          params: { path: { edge_id: edge.id } },
          body: {
            match,
            match_type: matchType,
            encoded_slashes: encodedSlashes,
            websocket: websocket === 'accept',
            description,
            ...(backendId && { backend: { backend_id: backendId } }),
          },
        }),
      ),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['edges'] })
      onClose()
    },
  })
  return (
    <Dialog title={`Add a route to ${edge.hostports[0] ?? edge.id}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          create.mutate()
        }}
      >
        <Field label="Path" mono autoFocus value={match} onChange={setMatch} hint="The longest match wins." />
        <Choice
          label="Match type"
          value={matchType}
          onChange={(value) => setMatchType(value as Route['match_type'])}
          options={[
            { value: 'path_prefix', label: 'Prefix: the path and everything below it' },
            { value: 'exact_path', label: 'Exact: only this path' },
          ]}
        />
        <Choice
          label="Encoded slashes in paths"
          value={encodedSlashes}
          onChange={(value) => setEncodedSlashes(value as Route['encoded_slashes'])}
          options={[
            { value: 'reject', label: 'Reject with 400' },
            { value: 'allow', label: 'Allow' },
          ]}
        />
        <Choice
          label="WebSockets"
          value={websocket}
          onChange={setWebsocket}
          options={[
            { value: 'accept', label: 'Accept' },
            { value: 'reject', label: 'Reject with 400' },
          ]}
        />
        <Choice
          label="Backend"
          value={backendId}
          onChange={setBackendId}
          options={[
            { value: '', label: 'None yet' },
            ...backends.map(({ id, address }) => ({ value: id, label: address })),
          ]}
        />
        <Field label="Description" value={description} onChange={setDescription} />
        {create.isError && <ProblemNote error={create.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isPending={create.isPending}>
            Save route
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function DeleteRoute({ route, name, onClose }: { route: Route; name: string; onClose: () => void }) {
  const client = useQueryClient()
  const remove = useMutation({
    mutationFn: () =>
      answerOf(
        api.DELETE('/edges/https/{edge_id}/routes/{id}', {
          params: { path: { edge_id: route.edge_id, id: route.id } },
        }),
      ),
    onSuccess: async () => {
      onClose()
      await client.invalidateQueries({ queryKey: ['edges'] })
    },
  })
  return (
    <Confirm
      title={`Delete route ${name}?`}
      action="Delete route"
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>Its requests then match a shorter route of this edge, or are refused if there is none.</p>
    </Confirm>
  )
}
