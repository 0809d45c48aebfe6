import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { Field } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form_dialog.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { Switch } from '../../ui/switch.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { useOpenOnArrival } from '../../ui/use_open_on_arrival.ts'
import { checkOf, checkText, HealthCheckFields, textsOfCheck } from './health_check.tsx'

type Backend = Shapes['StaticBackend']

export function Backends() {
  const backends = useQuery(queries.backends())
  const [open, setOpen] = useState<'create' | Backend>()
  useOpenOnArrival(() => setOpen('create'))
  const mayChange = useMayChange()
  const [leaving, setLeaving] = useState<Backend>()
  return (
    <section className="card" aria-labelledby="backends">
      <header>
        <h2 id="backends">Backends</h2>
        {mayChange && (
          <Button icon="plus" onPress={() => setOpen('create')}>
            Create backend
          </Button>
        )}
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
                      {backend.protocol === 'http2' && <Badge tone="neutral">HTTP/2</Badge>}{' '}
                      {backend.send_proxy_protocol && <Badge tone="neutral">PROXY protocol</Badge>}{' '}
                      {backend.health_check && <Badge tone="neutral">{checkText(backend.health_check)}</Badge>}
                    </td>
                    <td>
                      {mayChange && (
                        <div className="actions">
                          <Button
                            kind="quiet"
                            isSmall
                            aria-label={`Edit ${backend.address}`}
                            onPress={() => setOpen(backend)}
                          >
                            Edit
                          </Button>
                          <Button
                            kind="quiet"
                            isSmall
                            aria-label={`Delete ${backend.address}`}
                            onPress={() => setLeaving(backend)}
                          >
                            Delete
                          </Button>
                        </div>
                      )}
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
  const { values, set, isDirty } = useDraft({
    address: backend?.address ?? '',
    description: backend?.description ?? '',
    tls: backend?.tls.enabled ?? false,
    isHttp2: backend?.protocol === 'http2',
    sendsProxy: backend?.send_proxy_protocol ?? false,
    healthCheck: textsOfCheck(backend?.health_check),
  })
  const refresh = useRefresh()
  const save = () => {
    const { address, description, tls, isHttp2, sendsProxy, healthCheck } = values
    const protocol = isHttp2 ? ('http2' as const) : ('http1' as const)
    const body = {
      address: address.trim(),
      description,
      tls: { enabled: tls },
      protocol,
      send_proxy_protocol: sendsProxy,
      health_check: checkOf(healthCheck),
    }
    return backend
      ? answerOf(api.PATCH('/backends/static/{id}', { params: { path: { id: backend.id } }, body }))
      : answerOf(api.POST('/backends/static', { body }))
  }
  return (
    <FormDialog
      title={backend ? `Edit ${backend.address}` : 'Create backend'}
      action="Save backend"
      isDirty={isDirty}
      save={save}
      onSaved={async () => {
        await refresh('/backends')
        onClose()
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
        placeholder="10.0.0.5:8080"
      />
      <Field label="Description" name="description" value={values.description} onChange={set('description')} />
      <Switch isSelected={values.tls} onChange={set('tls')}>
        Connect with TLS and verify the certificate
      </Switch>
      <Switch isSelected={values.isHttp2} onChange={set('isHttp2')}>
        Use HTTP/2 (required for gRPC)
      </Switch>
      <Switch isSelected={values.sendsProxy} onChange={set('sendsProxy')}>
        Send the PROXY protocol from TCP edges
      </Switch>
      <HealthCheckFields value={values.healthCheck} onChange={set('healthCheck')} />
    </FormDialog>
  )
}

function DeleteBackend({ backend, onClose }: { backend: Backend; onClose: () => void }) {
  const refresh = useRefresh()
  return (
    <Confirm
      title={`Delete ${backend.address}?`}
      action="Delete backend"
      act={() => answerOf(api.DELETE('/backends/static/{id}', { params: { path: { id: backend.id } } }))}
      onDone={async () => {
        onClose()
        await refresh('/backends')
      }}
      onClose={onClose}
    >
      <p>A backend that an edge, a route or another backend still uses cannot be deleted.</p>
    </Confirm>
  )
}
