import { Link } from 'react-router'
import type { Shapes } from '../../api/client.ts'
import { StatusCell, StatusState } from '../../ui/status.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'

export type Certificate = Shapes['TlsCertificate']

const namesOf = ({ subject_alternative_names: { dns_names } }: Certificate): string[] => dns_names

export const nameOf = (certificate: Certificate): string =>
  certificate.description ?? namesOf(certificate)[0] ?? certificate.id

type Props = { certificate: Certificate }

const Expiry = ({ certificate: { expiry, not_after } }: Props) => (
  <>
    {expiry === 'expired' && 'Expired '}
    <Ago at={not_after} />
  </>
)

export const ExpiryOf = ({ certificate }: Props) => (
  <StatusState status={certificate.status}>
    <Expiry certificate={certificate} />
  </StatusState>
)

export const certificateColumns = (): Column<Certificate>[] => [
  {
    title: 'Certificate',
    className: 'a1',
    width: '36%',
    isRowHead: true,
    sortBy: nameOf,
    cell: (certificate) => (
      <span className="two">
        <Link className="row-link" to={`/certificates/${certificate.id}`}>
          {nameOf(certificate)}
        </Link>
        <small className="mono hide-small clip">{namesOf(certificate).join(', ')}</small>
      </span>
    ),
  },
  {
    title: 'Expires',
    className: 'a2',
    sortBy: ({ not_after }) => Date.parse(not_after),
    cell: (certificate) => (
      <StatusCell status={certificate.status}>
        <Expiry certificate={certificate} />
      </StatusCell>
    ),
  },
  {
    title: 'Issuer',
    className: 'hide-small low',
    sortBy: ({ issuer_common_name }) => issuer_common_name ?? '',
    cell: ({ issuer_common_name }) => issuer_common_name ?? <span className="soft">Unnamed</span>,
  },
  {
    title: 'Source',
    className: 'hide-small',
    sortBy: ({ source }) => source,
    cell: ({ source }) => <span className="tag">{source === 'acme' ? 'Ordered' : 'Uploaded'}</span>,
  },
  {
    title: 'Used by',
    className: 'b1',
    sortBy: ({ in_use_by }) => in_use_by.length,
    cell: ({ in_use_by: { length } }) =>
      length === 0 ? <span className="soft">Not in use</span> : `${length} ${length === 1 ? 'domain' : 'domains'}`,
  },
]
