// SPDX-License-Identifier: Apache-2.0

// An exchange on quic-go, client and server: all that QUIC offers an application, at the same time. What its lines mean
// is in ../../aioquic_exchange.py, which is the same on aioquic.
// The server prints "listening ADDRESS:PORT" when it is ready and ends on SIGTERM. The client prints what it saw as JSON.
package main

import (
	"context"
	"crypto/sha3"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	alpn   = "exchange"
	giveUp = 45 * time.Second
)

var config = &quic.Config{EnableDatagrams: true, Allow0RTT: true, MaxIdleTimeout: 30 * time.Second}

type options struct {
	listen, cert, key, connect, ca string
	bytes                          int
	resume, move                   bool
}

func main() {
	var given options
	flag.StringVar(&given.listen, "listen", "", "ADDRESS:PORT: be the server")
	flag.StringVar(&given.cert, "cert", "", "certificate chain of the server, PEM")
	flag.StringVar(&given.key, "key", "", "its key, PEM")
	flag.StringVar(&given.connect, "connect", "", "ADDRESS:PORT: be the client")
	flag.StringVar(&given.ca, "ca", "", "vouches for the server, PEM")
	flag.IntVar(&given.bytes, "bytes", 0, "of the bulk, each way, at least")
	flag.BoolVar(&given.resume, "resume", false, "instead: two connections, 0-RTT on the second")
	flag.BoolVar(&given.move, "move", false, "move to another socket meanwhile")
	flag.Parse()
	run := beClient
	if given.listen != "" {
		run = beServer
	}
	if err := run(given); err != nil {
		fmt.Fprintln(os.Stderr, "exchange:", err)
		os.Exit(1)
	}
}

func beServer(given options) error {
	pair, err := tls.LoadX509KeyPair(given.cert, given.key)
	if err != nil {
		return err
	}
	words := &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{alpn}}
	listener, err := quic.ListenAddrEarly(given.listen, words, config)
	if err != nil {
		return err
	}
	fmt.Println("listening", listener.Addr())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for {
		conn, err := listener.Accept(ctx)
		if err != nil {
			if ctx.Err() == nil {
				return err
			}
			return listener.Close()
		}
		serve(ctx, conn)
	}
}

func beClient(given options) error {
	text, err := os.ReadFile(given.ca)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return errors.New("no certificate in " + given.ca)
	}
	words := &tls.Config{RootCAs: pool, NextProtos: []string{alpn}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	ctx, cancel := context.WithTimeout(context.Background(), giveUp)
	defer cancel()
	var seen map[string]any
	if given.resume {
		seen, err = resume(ctx, given.connect, words)
	} else {
		seen, err = connect(ctx, given, words)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

func connect(ctx context.Context, given options, words *tls.Config) (map[string]any, error) {
	address, err := net.ResolveUDPAddr("udp", given.connect)
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, err
	}
	// With DialAddr it would have no connection ID, and could not move.
	transport := &quic.Transport{Conn: socket}
	conn, err := transport.Dial(ctx, address, words, config)
	if err != nil {
		return nil, err
	}
	defer conn.CloseWithError(0, "")
	return exchange(ctx, conn, given.bytes, given.move)
}

// resume makes two connections. The second asks in its first packets, with the ticket of the first (0-RTT).
func resume(ctx context.Context, address string, words *tls.Config) (map[string]any, error) {
	first, err := quic.DialAddr(ctx, address, words, config)
	if err != nil {
		return nil, err
	}
	if _, err := fetch(ctx, first, "first", 100_000); err != nil {
		return nil, err
	}
	// An answer that was asked for behind the handshake comes behind the ticket.
	if _, err := fetch(ctx, first, "second", 100_000); err != nil {
		return nil, err
	}
	_ = first.CloseWithError(0, "")
	second, err := quic.DialAddrEarly(ctx, address, words, config)
	if err != nil {
		return nil, err
	}
	defer second.CloseWithError(0, "")
	if _, err := fetch(ctx, second, "early", 100_000); err != nil {
		return nil, err
	}
	state := second.ConnectionState()
	return map[string]any{"resumed": state.TLS.DidResume, "early": state.Used0RTT}, nil
}

// move takes the connection to another socket (RFC 9000 9).
func move(ctx context.Context, conn *quic.Conn) error {
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return err
	}
	path, err := conn.AddPath(&quic.Transport{Conn: socket})
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return err
	}
	return path.Switch()
}

func content(label string, size int) []byte {
	hash := sha3.NewSHAKE128()
	_, _ = hash.Write([]byte(label)) // never fails
	bytes := make([]byte, size)
	_, _ = hash.Read(bytes)
	return bytes
}
