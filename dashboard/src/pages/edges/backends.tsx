import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { queries } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Field } from '../../ui/field.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { ProblemNote } from '../../ui/problem.tsx'
import { Switch } from '../../ui/switch.tsx'

type Backend = Shapes['StaticBackend']

export function Backends() {
  const backends = useQuery(queries.backends())
  const [open, setOpen] = useState<'create' | Backend>()
  const [leaving, setLeaving] = useState<Backend>()
  return (
    <section className="card" aria-labelledby="backends">
      <header>
        <h2 id="backends">Backends</h2>
        <Button icon="plus" onPress={() => setOpen('create')}>
          Create backend
        </Button>
      </header>
      <Loaded query={backends} lines={3}>
        {(rows) =>
          rows.length === 0 ? (
            <p className="empty">No backends yet. Edges need one to forward traffic to.</p>
          ) : (
            <table className="stack">
              <thead>
                <tr>
                  <th scope="col">Address</th>
                  <th scope="col">Description</th>
                  <th scope="col">TLS</th>
                  <th scope="col">
                    <span className="for-readers">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {rows.map((backend) => (
                  <tr key={backend.id}>
                    <th scope="row" className="mono">
                      {backend.address}
                    </th>
                    <td>{backend.description}</td>
                    <td>
                      {backend.tls.enabled ? (
                        <Badge tone="allowed">TLS, verified</Badge>
                      ) : (
                        <Badge tone="neutral">No TLS</Badge>
                      )}{' '}
                      {backend.protocol === 'http2' && <Badge tone="neutral">HTTP/2</Badge>}
                    </td>
                    <td>
                      <div className="actions">
                        <Button aria-label={`Edit ${backend.address}`} onPress={() => setOpen(backend)}>
                          Edit
                        </Button>
                        <Button aria-label={`Delete ${backend.address}`} onPress={() => setLeaving(backend)}>
                          Delete
                        </Button>
                      </div>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          )
        }
      </Loaded>
      {open && <BackendForm backend={open === 'create' ? undefined : open} onClose={() => setOpen(undefined)} />}
      {leaving && <DeleteBackend backend={leaving} onClose={() => setLeaving(undefined)} />}
    </section>
  )
}

function BackendForm({ backend, onClose }: { backend: Backend | undefined; onClose: () => void }) {
  const [address, setAddress] = useState(backend?.address ?? '')
  const [description, setDescription] = useState(backend?.description ?? '')
  const [tls, setTls] = useState(backend?.tls.enabled ?? false)
  const [isHttp2, setHttp2] = useState(backend?.protocol === 'http2')
  const client = useQueryClient()
  const save = useMutation({
    mutationFn: (): Promise<unknown> => {
      const protocol = isHttp2 ? ('http2' as const) : ('http1' as const)
      const body = { address: address.trim(), description, tls: { enabled: tls }, protocol }
      return backend
        ? answerOf(api.PATCH('/backends/static/{id}', { params: { path: { id: backend.id } }, body }))
        : answerOf(api.POST('/backends/static', { body }))
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ['backends'] })
      onClose()
    },
  })
  return (
    <Dialog title={backend ? `Edit ${backend.address}` : 'Create backend'} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          save.mutate()
        }}
      >
        <Field label="Address" mono autoFocus value={address} onChange={setAddress} placeholder="10.0.0.5:8080" />
        <Field label="Description" value={description} onChange={setDescription} />
        <Switch isSelected={tls} onChange={setTls}>
          Connect with TLS and verify the certificate
        </Switch>
        <Switch isSelected={isHttp2} onChange={setHttp2}>
          Use HTTP/2 (required for gRPC)
        </Switch>
        {save.isError && <ProblemNote error={save.error} />}
        <div className="actions">
          <Button onPress={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" isPending={save.isPending}>
            Save backend
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

function DeleteBackend({ backend, onClose }: { backend: Backend; onClose: () => void }) {
  const client = useQueryClient()
  const remove = useMutation({
    mutationFn: () => answerOf(api.DELETE('/backends/static/{id}', { params: { path: { id: backend.id } } })),
    onSuccess: async () => {
      onClose()
      await client.invalidateQueries({ queryKey: ['backends'] })
    },
  })
  return (
    <Confirm
      title={`Delete ${backend.address}?`}
      action="Delete backend"
      isPending={remove.isPending}
      error={remove.error}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>A backend that an edge or route still uses cannot be deleted.</p>
    </Confirm>
  )
}
