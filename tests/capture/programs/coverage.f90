! Fortran bindings: Open MPI's call PMPI_ functions. Needs 4 ranks.
program coverage
  use mpi
  implicit none
  integer :: ierr, r, p, right, left, sub, dup, cart, request, requests(2), statuses(MPI_STATUS_SIZE, 2)
  integer :: counts(4) = [1, 2, 3, 4], displs(4) = [0, 8, 16, 24]
  double precision :: d(100), e(100)
  integer :: i(100), k(100)
  d = 0; e = 0; i = 0; k = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, r, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, p, ierr)
  right = mod(r + 1, p); left = mod(r + p - 1, p)
  call MPI_Sendrecv(d, 5, MPI_DOUBLE_PRECISION, right, 1, e, 9, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  call MPI_Irecv(k, 6, MPI_INTEGER, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Isend(i, 4, MPI_INTEGER, right, 2, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call MPI_Irecv(k, 4, MPI_INTEGER, left, 3, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Isend(i, 4, MPI_INTEGER, right, 3, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Waitall(2, requests, statuses, ierr)
  call MPI_Bcast(i, 10, MPI_INTEGER, 2, MPI_COMM_WORLD, ierr)
  call MPI_Allreduce(MPI_IN_PLACE, d, 7, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Gatherv(i, r + 1, MPI_INTEGER, k, counts, displs, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(r, 2), -r, sub, ierr)
  call MPI_Allreduce(d, e, 1, MPI_DOUBLE_PRECISION, MPI_MAX, sub, ierr)
  call MPI_Comm_idup(sub, dup, request, ierr)
  call MPI_Wait(request, MPI_STATUS_IGNORE, ierr)
  call MPI_Barrier(dup, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [4], [.true.], .false., cart, ierr)
  call MPI_Neighbor_alltoall(i, 3, MPI_INTEGER, k, 3, MPI_INTEGER, cart, ierr)
  call MPI_Comm_free(cart, ierr)
  call MPI_Finalize(ierr)
end program
