import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { Link } from 'react-router'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { useMayChange } from '../../api/may_change.ts'
import { queries, useRefresh } from '../../api/queries.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/confirm.tsx'
import { DataTable } from '../../ui/data_table.tsx'
import { Field } from '../../ui/field.tsx'
import { Loaded } from '../../ui/loading.tsx'
import { MoreMenu } from '../../ui/more_menu.tsx'
import { Section } from '../../ui/section.tsx'
import { Empty } from '../../ui/states.tsx'
import { rankOf, StatusCell } from '../../ui/status.tsx'
import { Switch } from '../../ui/switch.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Toolbar } from '../../ui/toolbar.tsx'
import { useDraft } from '../../ui/use_draft.ts'
import { useOpenOnArrival } from '../../ui/use_open_on_arrival.ts'
import { useUrlState } from '../../ui/use_url_state.ts'
import { BackendDialog } from './backend_dialog.tsx'
import { checkOf, checkText, HealthCheckFields, textsOfCheck } from './health_check.tsx'

type Backend = Shapes['StaticBackend']

type Open = { action: 'create' } | { action: 'edit' | 'delete'; backend: Backend }

export function Backends() {
  const backends = useQuery(queries.backends())
  const [open, setOpen] = useState<Open>()
  const close = () => setOpen(undefined)
  useOpenOnArrival(() => setOpen({ action: 'create' }))
  const mayChange = useMayChange()
  const [search, setSearch] = useUrlState<string>('search', '')
  const columns = columnsFor({ mayChange, onOpen: setOpen })
  return (
    <Section
      title="Backends"
      action={
        mayChange && (
          <Button icon="plus" onPress={() => setOpen({ action: 'create' })}>
            Create backend
          </Button>
        )
      }
    >
      <Loaded query={backends} lines={3}>
        {(rows) =>
          rows.length === 0 ? (
            <div className="frame">
              <Empty title="No backends yet">Edges need one to forward traffic to.</Empty>
            </div>
          ) : (
            <>
              <Toolbar search={search} onSearch={setSearch} placeholder="Address, description or ID" />
              <Found rows={rows.filter(matcherOf(search))} columns={columns} />
            </>
          )
        }
      </Loaded>
      {open && open.action !== 'delete' && (
        <BackendForm backend={open.action === 'edit' ? open.backend : undefined} onClose={close} />
      )}
      {open?.action === 'delete' && <DeleteBackend backend={open.backend} onClose={close} />}
    </Section>
  )
}

const matcherOf = (search: string) => {
  const wanted = search.trim().toLowerCase()
  return ({ address, description, id }: Backend): boolean =>
    `${address} ${description ?? ''} ${id}`.toLowerCase().includes(wanted)
}

const Found = ({ rows, columns }: { rows: Backend[]; columns: Column<Backend>[] }) =>
  rows.length === 0 ? (
    <div className="frame">
      <Empty title="No matching backends" />
    </div>
  ) : (
    <DataTable label="Backends" rows={rows} keyOf={({ id }) => id} columns={columns} initialSort="Address" isTwoLine />
  )

type Options = { mayChange: boolean; onOpen: (open: Open) => void }

const columnsFor = ({ mayChange, onOpen }: Options): Column<Backend>[] => [
  {
    title: 'Address',
    className: 'a1',
    width: '280px',
    isRowHead: true,
    sortBy: ({ address }) => address,
    cell: ({ id, address, description }) => (
      <span className="two">
        <Link className="mono" to={`/backends/${id}`}>
          {address}
        </Link>
        {description && <small>{description}</small>}
      </span>
    ),
  },
  {
    title: 'State',
    className: 'b2',
    width: '34%',
    sortBy: ({ status }) => rankOf(status),
    cell: ({ status }) => <StatusCell status={status} />,
  },
  { title: 'Options', className: 'b1', cell: (backend) => <Traits backend={backend} /> },
  ...(mayChange
    ? [
        {
          title: 'Actions',
          titleHidden: true,
          className: 'menu-cell a2',
          width: '44px',
          cell: (backend: Backend) => (
            <MoreMenu
              label={`Actions for ${backend.address}`}
              groups={() => [
                {
                  entries: [
                    { label: 'Edit…', icon: 'edit', onAction: () => onOpen({ action: 'edit', backend }) },
                    {
                      label: 'Delete…',
                      icon: 'trash',
                      isDanger: true,
                      onAction: () => onOpen({ action: 'delete', backend }),
                    },
                  ],
                },
              ]}
            />
          ),
        },
      ]
    : []),
]

const Traits = ({ backend }: { backend: Backend }) => (
  <>
    {backend.tls.enabled ? <Badge tone="allowed">TLS, verified</Badge> : <Badge tone="neutral">No TLS</Badge>}{' '}
    {backend.protocol === 'http2' && <Badge tone="neutral">HTTP/2</Badge>}{' '}
    {backend.send_proxy_protocol && <Badge tone="neutral">PROXY protocol</Badge>}{' '}
    {backend.health_check && <Badge tone="neutral">{checkText(backend.health_check)}</Badge>}
  </>
)

export function BackendForm({ backend, onClose }: { backend: Backend | undefined; onClose: () => void }) {
  const { values, set, isDirty } = useDraft({
    address: backend?.address ?? '',
    description: backend?.description ?? '',
    tls: backend?.tls.enabled ?? false,
    isHttp2: backend?.protocol === 'http2',
    sendsProxy: backend?.send_proxy_protocol ?? false,
    healthCheck: textsOfCheck(backend?.health_check),
  })
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
    <BackendDialog
      title={backend ? `Edit ${backend.address}` : 'Create backend'}
      isDirty={isDirty}
      save={save}
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
    </BackendDialog>
  )
}

type DeleteProps = { backend: Backend; onClose: () => void; onDeleted?: () => void }

export function DeleteBackend({ backend, onClose, onDeleted }: DeleteProps) {
  const refresh = useRefresh()
  return (
    <Confirm
      canDraft
      title={`Delete ${backend.address}?`}
      action="Delete backend"
      act={() => answerOf(api.DELETE('/backends/static/{id}', { params: { path: { id: backend.id } } }))}
      onDone={async () => {
        onClose()
        onDeleted?.()
        await refresh('/backends')
      }}
      onClose={onClose}
    >
      <p>A backend that an edge, a route or another backend still uses cannot be deleted.</p>
    </Confirm>
  )
}
