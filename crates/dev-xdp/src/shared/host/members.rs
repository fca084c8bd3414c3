//! Processes come in and go.

use dev_core::Protocol;

use super::*;

/// What the broker says of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFacts {
    /// Its ports: protocol and address.
    pub ports: Vec<(Protocol, SocketAddr)>,
    /// Its flows to one peer each.
    pub flows: usize,
    /// Received frames that it has not taken yet.
    pub received: u32,
    /// Frames that it sends by.
    pub to_send: u32,
    /// Those of them that the kernel has.
    pub sending: usize,
    /// Packets that were lost for lack of room in its RX rings, or of empty frames.
    pub dropped: u64,
    /// It does not look into its rings though something is there.
    pub is_late: bool,
}

impl Host {
    /// Has a process come in, whose messages come through this socket from here on.
    ///
    /// # Errors
    /// There is no room, or the system refuses. The process was told.
    pub fn admit(&mut self, socket: BorrowedFd<'_>, frame_bytes: u32) -> io::Result<Client> {
        let made = self.make_member(frame_bytes);
        let member = made.inspect_err(|error| refuse(socket, &error.to_string()))?;
        let welcome = Answer::Welcome(Welcome {
            place: member.client.place(),
            generation: member.client.generation(),
            shape: self.area.shape(),
            queues: self.queues.len() as u32,
            entries: Entries {
                rx: member.rx_entries,
                tx: self.sent_by(&member).next_power_of_two(),
                ..self.entries
            },
            first_sent: member.share.first,
            sent: self.sent_by(&member),
            is_generic: self.mode == AttachMode::Generic,
            in_pieces: self.in_pieces,
            partial_checksums: self.partial_checksums,
            note: self.note.clone(),
        });
        let mut along = vec![self.memory.as_fd()];
        for sockets in &member.sockets {
            along.extend([sockets.receiving.as_fd(), sockets.sending.as_fd()]);
        }
        // Who may open such itself does.
        let raw_sockets = socket_options::raw_sockets();
        along.extend(raw_sockets.iter().map(AsFd::as_fd));
        let sent = fds::send(socket, &welcome.encode(), &along);
        let client = member.client;
        self.members.insert(client.place(), member);
        if let Err(error) = sent {
            self.part(client);
            return Err(error);
        }
        Ok(client)
    }

    /// Frames that a process sends by, of each queue.
    fn sent_by(&self, member: &Member) -> u32 {
        member.share.count / self.queues.len() as u32
    }

    fn make_member(&mut self, frame_bytes: u32) -> io::Result<Member> {
        if frame_bytes < self.area.shape().frame_bytes {
            return Err(io::Error::other("its frames are shorter than those here"));
        }
        let is_free = |place: &u8| {
            let has = |ended: &Ended| ended.member.client.place() == *place;
            !self.members.contains_key(place) && !self.ended.iter().any(has)
        };
        let no_room = || io::Error::other("as many processes as can be have the interface");
        let place = (0..CLIENTS_MAX).find(is_free).ok_or_else(no_room)?;
        let (rx_entries, share) = self.budget.take().ok_or_else(no_room)?;
        let generation = &mut self.generations[usize::from(place)];
        *generation = generation.wrapping_add(1);
        let client = Client::new(place, *generation).ok_or_else(no_room)?;
        for number in share.numbers() {
            self.area.state(number).store(WITH_OWNER, Ordering::Relaxed);
        }
        let mut member = Member {
            client,
            sockets: Vec::new(),
            rx_entries,
            share,
            progress: Default::default(),
            listened: HashSet::new(),
        };
        let opened = (0..self.queues.len() as u32)
            .try_for_each(|queue| self.open_sockets(&mut member, queue));
        opened.inspect_err(|_| self.budget.give(rx_entries, share))?;
        Ok(member)
    }

    fn open_sockets(&self, member: &mut Member, queue: u32) -> io::Result<()> {
        let umem = Umem::ShareWith(self.queues[queue as usize].fd.as_fd());
        let binding = Binding {
            copy: true,
            in_pieces: self.in_pieces,
        };
        let bind = |fd| xsk::bind(fd, self.ifindex, queue, umem, binding, Patience::Short);
        let receiving = xsk::open_socket()?;
        sockopt::set_xdp_rx_ring_size(&receiving, member.rx_entries)?;
        let offsets = sockopt::xdp_mmap_offsets(&receiving)?;
        let (rx, mapping) = xsk::map(
            &receiving,
            XDP_PGOFF_RX_RING,
            &offsets.rx,
            member.rx_entries,
        )?;
        bind(&receiving)?;
        let sending = xsk::open_socket()?;
        let sent = self.sent_by(member).next_power_of_two();
        sockopt::set_xdp_tx_ring_size(&sending, sent)?;
        bind(&sending)?;
        // SAFETY: it was just mapped, and stays so as long as the value is used (`recover`). The
        // process is at this end while it lives.
        let rx = unsafe { Consumer::new(rx) };
        let maps = self.attached.maps();
        maps.set_xsk_of(member.client.place(), queue, receiving.as_raw_fd())?;
        member.sockets.push(MemberSockets {
            receiving,
            sending,
            rx,
            mapping,
        });
        Ok(())
    }

    /// A process has gone: nothing comes to it any more.
    pub fn part(&mut self, client: Client) {
        if !self.is_member(client) {
            return;
        }
        self.remove_flows(client);
        let Some(member) = self.members.remove(&client.place()) else {
            return;
        };
        self.late.remove(&client.place());
        // The others wait for empty frames.
        self.take_lock_from(client);
        for queue in 0..self.queues.len() as u32 {
            let _ = self.attached.maps().remove_xsk_of(client.place(), queue);
        }
        self.ended.push(Ended {
            member,
            since: Instant::now(),
            is_recovered: false,
        });
    }

    pub(super) fn remove_flows(&mut self, client: Client) {
        self.leave_groups(client);
        let had = self.ledger.remove_all(client.place());
        let maps = self.attached.maps();
        // What cannot be taken out leads nowhere: the process's sockets are taken out next.
        for port in had.ports {
            let _ = maps.remove(port);
        }
        for ((protocol, local), peer) in had.flows.into_iter().chain(had.exemptions) {
            let _ = maps.remove_flow(local, peer, protocol as u8);
        }
    }

    /// What a process has. `None`: it has gone.
    pub fn facts_of(&self, client: Client) -> Option<MemberFacts> {
        let member = self.members.get(&client.place());
        let member = member.filter(|it| it.client == client)?;
        let (ports, flows) = self.ledger.held_by(client.place());
        let sockets = &member.sockets;
        let is_sending = |number: &u32| {
            let state = self.area.state(*number).load(Ordering::Relaxed);
            state == IN_FLIGHT
        };
        Some(MemberFacts {
            ports,
            flows,
            received: sockets.iter().map(|it| it.rx.look().1).sum(),
            to_send: member.share.count,
            sending: member.share.numbers().filter(is_sending).count(),
            dropped: sockets.iter().map(|it| xsk::dropped(&it.receiving)).sum(),
            is_late: self.late.contains(&client.place()),
        })
    }

    /// Where its XDP program runs, and how many queues it has.
    pub fn mode(&self) -> (&'static str, usize) {
        (self.mode.text(), self.queues.len())
    }
}
